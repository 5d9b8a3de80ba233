//! The promises of `Store`, `Replays`, `Triage` and `Splits`, as plain functions over any engine. `conformance!` runs each of them as a test.
//!
//! A function that is not in the list below is dead code, and the compiler says so.

use async_trait::async_trait;
use dlo_store::{DynStore, StoreError, StoreLimits};

pub(crate) mod approvals;
pub(crate) mod beside;
pub(crate) mod bytes;
pub(crate) mod deaths;
pub(crate) mod families;
pub(crate) mod groups;
pub(crate) mod insert;
pub(crate) mod leases;
pub(crate) mod masked;
pub(crate) mod numbers;
pub(crate) mod order;
pub(crate) mod pages;
pub(crate) mod plans;
pub(crate) mod record;
pub(crate) mod repairs;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod splits;
pub(crate) mod steps;
pub(crate) mod suspects;
pub(crate) mod triage;

/// A place where one store lives: a directory, a database. Empty at first; what is stored stays while it lives.
#[async_trait]
pub(crate) trait Home: Send + Sync {
    async fn open_with(&self, limits: StoreLimits) -> Result<DynStore, StoreError>;

    async fn open(&self) -> DynStore {
        self.open_with(StoreLimits::default()).await.expect("opening the store")
    }
}

/// Writes one `#[tokio::test]` for each promise; `$home` is an async function that makes a fresh [`Home`].
macro_rules! conformance {
    ($home:path) => {
        $crate::conformance::run! { $home;
            insert {
                a_batch_answers_for_each_letter_in_the_order_given
                the_same_death_twice_is_one_letter
                the_same_death_twice_in_one_batch_is_one_letter
                letters_without_coordinates_are_never_merged
                two_consumer_groups_failing_on_one_record_are_two_letters
                checkpoints_move_with_their_letters
                checkpoints_move_without_letters_too
                checkpoints_are_kept_per_source_incarnation_and_partition
                a_mark_is_replaced_by_that_of_an_equal_or_later_checkpoint
                what_the_runtime_discarded_is_stored_as_discarded
                inserts_from_many_tasks_at_once_are_exact
                a_batch_is_taken_whole_or_refused_as_overloaded
                an_empty_batch_changes_nothing
            }
            deaths {
                a_letter_that_dies_again_gets_one_more_death_and_is_open
                a_letter_that_dies_again_keeps_what_it_was
                a_letter_that_comes_back_through_another_source_is_counted_there
                a_closed_letter_that_dies_again_stays_closed
                the_same_second_death_twice_is_one_death
                two_more_deaths_in_one_batch_are_two
                a_letter_that_is_not_here_is_stored_as_a_new_one
                counts_follow_a_letter_that_dies_again_of_another_cause
                a_letter_that_died_again_is_found_by_its_latest_words_only
                a_letter_that_dies_again_is_listed_at_its_latest_failure
            }
            suspects {
                a_copy_after_a_redelivery_is_a_letter_of_its_own_that_names_the_first
                a_copy_that_is_stored_first_is_paired_with_its_original
                copies_of_one_batch_are_told_apart_as_those_of_several
                equal_bytes_are_no_copy_without_a_redelivery_or_in_another_source
                suspected_letters_are_found_whatever_becomes_of_them
                a_plan_leaves_out_suspected_letters_unless_they_are_asked_for
                a_suspicion_is_kept_when_the_store_is_opened_again
                copies_that_several_tasks_store_at_once_have_one_first
                a_message_that_comes_back_with_its_message_id_is_the_same_letter
                a_message_that_comes_back_with_payload_and_key_is_a_suspected_return
                each_equal_message_comes_back_once
                what_comes_back_before_its_send_is_recorded_is_recognised
                what_our_runtime_parked_or_another_source_has_is_no_return
                what_comes_long_after_its_window_is_a_letter_of_its_own
                a_receipt_or_a_proven_death_corrects_a_suspected_return
                a_message_id_proves_a_return_only_after_the_send_and_in_one_consumer
                a_passed_message_does_not_hide_the_next_equal_one
                an_equal_payload_leaves_a_doubt_a_doubt
                what_was_not_sent_after_a_suspicion_is_open_again
                one_return_that_several_tasks_store_at_once_is_one_death
            }
            bytes {
                every_field_comes_back_as_it_was
                payload_key_and_headers_come_back_byte_for_byte
                an_absent_key_is_not_an_empty_one
                letters_of_one_batch_keep_their_own_payloads
                a_large_payload_comes_back
                text_with_a_nul_character_comes_back
                times_beyond_the_calendar_come_back
            }
            groups {
                letters_with_one_cause_form_one_group
                a_group_is_told_apart_by_each_of_its_words
                past_the_cap_new_causes_go_to_one_group_that_says_so
                letters_past_the_cap_keep_their_own_words
                the_cap_holds_for_many_tasks_at_once
                groups_are_listed_last_seen_first_page_by_page
                groups_are_filtered_by_each_field
                a_group_that_is_not_here_is_said_to_be_missing
                owners_are_assigned_anew
                names_are_offered_to_whoever_types_one
            }
            numbers {
                an_empty_office_has_nothing_and_says_so
                counts_follow_inserts_duplicates_and_steps
                stats_speak_for_each_source
                the_oldest_open_letter_is_known_after_steps
                unowned_letters_are_counted_while_open
                causes_are_counted_by_type_class_and_status
                matches_are_counted_up_to_a_bound
                verification_counts_what_is_there
            }
            steps {
                every_step_from_every_status_obeys_the_table
                what_is_illegal_or_missing_does_not_stop_the_others
                a_letter_named_twice_takes_the_step_once
                too_many_letters_in_one_call_are_refused
                one_of_many_claims_wins
                a_send_counts_as_a_replay
            }
            record {
                a_timeline_begins_with_the_capture_and_is_oldest_first
                a_step_is_in_timeline_and_audit_with_its_deed
                a_captured_batch_is_one_audit_row_per_source
                a_reading_of_a_payload_is_audited_if_a_reader_is_named
                a_reading_of_nothing_is_not_audited
                notes_are_in_the_audit_log
                the_audit_log_is_paged_newest_first
                each_end_of_a_send_stands_at_its_own_item
                a_reopened_store_has_everything
            }
            pages {
                letters_come_newest_failure_first
                every_letter_is_shown_once_while_others_arrive
                letters_of_one_millisecond_are_all_shown
                a_page_holds_as_many_as_asked
                a_page_goes_on_until_something_stands_on_it
                a_foreign_cursor_is_refused
            }
            masked {
                what_is_masked_is_not_found_and_what_is_shown_is
                names_and_groups_are_chosen_by_what_is_shown
            }
            search {
                every_matcher_finds_what_it_names_before_and_after_indexing
                every_matcher_leaves_out_what_it_names_when_negated
                terms_are_joined_by_and
                text_is_found_anywhere_in_error_text_and_payload
                a_text_without_words_is_found_nowhere
                a_group_that_is_not_here_has_no_letters
            }
            leases {
                a_lease_is_held_by_one_until_it_runs_out
                a_lease_that_runs_out_later_than_it_can_is_not_held
                keeping_a_lease_does_not_change_its_fence
                a_lease_given_back_can_be_taken_at_once
                one_of_many_gets_the_lease
                giving_back_what_one_does_not_hold_changes_nothing
                what_is_written_under_a_lost_lease_is_refused_whole
                a_lost_lease_refuses_its_own_batch_only
                leases_that_are_held_are_listed_by_the_beginning_of_their_name
            }
            plans {
                a_plan_is_frozen_oldest_failure_first
                a_plan_says_what_it_was_told
                what_is_left_out_of_a_plan_is_counted
                only_open_letters_are_members_whatever_the_query_says
                what_another_replay_has_in_hand_is_left_out_by_its_name
                a_letter_knows_the_replay_that_has_it_in_hand
                a_plan_of_ids_has_these_and_no_others
                several_causes_become_children_by_their_oldest_letter
                order_holds_back_superseded_letters_and_keys_that_span_classes
                replays_are_listed_newest_first_page_by_page
                items_are_paged_in_order_and_by_state
                a_replay_goes_where_it_may_and_says_so
                settings_are_adjusted_until_a_replay_is_over
                what_a_server_should_have_in_hand_is_listed
                the_usual_time_to_die_is_that_of_members_that_died_once
                a_plan_without_members_is_a_plan
                of_a_plan_without_members_nothing_is_written_if_so_asked
            }
            approvals {
                an_approval_counts_once_for_each_person_and_for_children
                nothing_is_written_of_a_plan_that_is_refused
            }
            order {
                a_key_goes_in_its_order_where_order_matters
                those_behind_letters_that_are_short_need_not_wait_for_them
                a_letter_that_was_taken_away_is_not_sent
                verification_sees_a_letter_that_is_in_no_hand
            }
            runs {
                a_claim_takes_open_letters_in_order_and_reports_the_others
                two_replays_never_claim_the_same_letter
                what_is_intended_is_whole_and_byte_for_byte
                what_is_intended_at_once_is_bounded_in_bytes
                nothing_is_intended_unless_the_replay_runs
                every_end_of_a_send_is_recorded_with_its_letter
                a_run_that_lost_its_lease_writes_nothing
                items_in_doubt_keep_their_time_and_can_be_intended_again
                doubts_are_settled_each_way
                a_mark_is_kept_until_the_next
                what_is_sent_waits_for_its_outcome_oldest_first
                a_letter_that_comes_back_is_told_with_both_classes
                a_late_death_does_not_take_a_letter_from_another_replay
                what_is_given_back_is_open_again
                a_receipt_confirms_whatever_was_published
            }
            triage {
                a_change_is_kept_with_its_deed
                each_group_of_a_bulk_change_stands_for_itself
                a_resolved_group_comes_back_by_a_letter_of_the_fixed_version_only
                a_letter_that_dies_again_brings_a_resolved_group_back
                what_failed_before_a_group_was_resolved_does_not_bring_it_back
                a_snooze_ends_by_its_letters_or_its_date
                an_owner_set_by_hand_is_not_overwritten_by_rules
                an_owner_set_while_rules_are_asked_stays
                groups_are_listed_in_each_order_and_by_what_people_said
            }
            families {
                merged_groups_are_one_and_stay_so
                members_of_a_merged_head_come_along_and_leave_alone
                a_head_speaks_for_its_members
                a_family_is_listed_by_what_names_any_of_it
                a_member_that_was_snoozed_sleeps_with_its_head
                a_runbook_that_was_taken_away_is_not_replaced_by_that_of_a_member
                an_overflow_group_is_merged_with_none
                groups_that_are_alike_are_named
            }
            splits {
                letters_that_match_become_a_group_of_their_own_and_those_that_come_later_too
                every_kind_of_condition_sorts_what_is_here_as_it_sorts_what_comes
                the_condition_that_was_made_first_decides
                a_split_that_is_taken_back_is_forgotten_and_can_be_made_anew
                a_split_group_that_was_merged_elsewhere_stays_there
                a_move_goes_on_after_a_restart_while_letters_come_and_take_steps
                a_letter_that_dies_again_is_sorted_by_what_it_keeps
                a_split_group_stands_where_it_came_from_and_both_tell_of_it
                splits_are_bounded_and_refused_where_they_make_no_sense
            }
            beside {
                notes_and_links_are_kept_and_bounded
                a_runbook_is_replaced_by_whoever_read_the_latest
                trends_count_what_arrived_at_each_resolution
                open_letters_are_counted_by_their_age
                deployments_are_listed_newest_first
                views_are_ones_own_or_everybodys
                a_sample_holds_the_newest_letters_with_key_and_payload
            }
            repairs {
                a_repair_stands_beside_the_original_and_is_sent
                only_an_open_letter_is_repaired
                many_repairs_at_once_are_each_their_own
                a_plan_knows_when_one_of_its_letters_was_last_repaired
                a_plan_knows_how_many_of_its_letters_go_out_changed
            }
        }
    };
}

macro_rules! run {
    ($home:path; $( $file:ident { $( $promise:ident )+ } )+) => {
        $( mod $file { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let home = $home().await;
                $crate::conformance::$file::$promise(&home).await;
            }
        )+ } )+
    };
}

pub(crate) use {conformance, run};
