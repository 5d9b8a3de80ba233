//! What the search bar offers: at every place of a text, finished or not.

use dlo_core::query::complete::{Known, OFFERED, Offer, Spot, Wanted};
use dlo_core::query::{FIELDS, Named, Query};
use dlo_core::time::Timestamp;
use proptest::prelude::*;

fn now() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn known(named: Named, name: &str, open: u64) -> Known {
    Known { named, name: name.into(), open }
}

/// What is offered at the `|` of the text, when groups carry these names.
fn offer(marked: &str, names: &[Known]) -> (Spot, Offer) {
    let at = marked.find('|').unwrap();
    let text = marked.replacen('|', "", 1);
    let spot = Spot::at(&text, at);
    let (wanted, _) = spot.names();
    let known = names.iter().filter(|known| wanted.contains(&known.named)).cloned().collect();
    let offer = spot.offer(known, now());
    (spot, offer)
}

fn values(marked: &str, names: &[Known]) -> Vec<String> {
    offer(marked, names).1.values.into_iter().map(|value| value.insert).collect()
}

fn fields(marked: &str) -> Vec<&'static str> {
    offer(marked, &[]).1.fields.into_iter().map(|field| field.name).collect()
}

/// The text after the best offer was taken.
fn taken(marked: &str, names: &[Known]) -> String {
    let (spot, offer) = offer(marked, names);
    let insert = offer.values.first().map(|value| value.insert.clone());
    let insert = insert.or_else(|| offer.fields.first().map(|field| field.insert())).unwrap();
    let mut text = marked.replacen('|', "", 1);
    text.replace_range(spot.replace, &insert);
    text
}

#[test]
fn an_empty_bar_offers_every_field_in_the_order_of_the_reference() {
    assert_eq!(fields("|"), FIELDS.iter().map(|field| field.name).collect::<Vec<_>>());
    assert_eq!(fields("status:open |").len(), FIELDS.len());
}

#[test]
fn fields_are_found_by_their_beginning_by_what_others_call_them_and_by_a_part() {
    assert_eq!(fields("so|"), ["source", "reason"]);
    assert_eq!(fields("-STA|"), ["status"]);
    assert_eq!(fields("topi|"), ["queue"]);
    assert_eq!(fields("con|"), ["consumer", "consumer_id"]);
    assert_eq!(fields("set|"), ["offset"]);
    assert_eq!(fields("zebra|"), Vec::<&str>::new());
}

#[test]
fn a_field_takes_the_place_of_what_was_typed_of_it() {
    assert_eq!(taken("stat| class:KeyError", &[]), "status: class:KeyError");
    assert_eq!(taken("sta|:open", &[]), "status:open");
    assert_eq!(taken("tax -paylo|", &[]), "tax -payload.");
}

#[test]
fn closed_vocabularies_offer_their_words() {
    assert_eq!(values("status:o|", &[])[0], "open");
    assert_eq!(values("reason:time|", &[]), ["timeout"]);
    assert_eq!(values("broker:|", &[]).len(), 11);
    assert_eq!(values("verdict:|", &[]), ["retry", "dead_letter", "discard"]);
}

#[test]
fn names_of_groups_are_offered_by_how_much_is_open_behind_them() {
    let names = [
        known(Named::Class, "KeyError", 3),
        known(Named::Class, "KeyTimeout", 40),
        known(Named::Type, "key", 9),
    ];
    assert_eq!(values("class:k|", &names), ["KeyTimeout", "KeyError"]);
    assert_eq!(values("class:error|", &names), ["KeyError"]);
    assert_eq!(values("ke|", &names), ["class:KeyTimeout", "type:key", "class:KeyError"]);
    assert_eq!(values("k|", &names), Vec::<String>::new(), "one character is too little to guess by");
}

#[test]
fn a_value_is_quoted_where_it_must_be() {
    let names = [known(Named::Class, "no such \"row\"", 3)];
    assert_eq!(taken("class:no| status:open", &names), r#"class:"no such \"row\"" status:open"#);
    assert_eq!(taken(r#"class:"no such|"#, &names), r#"class:"no such \"row\"""#);
    assert_eq!(taken(r#"class:"no such"|"#, &names), r#"class:"no such \"row\"""#);
}

#[test]
fn no_owner_is_offered_beside_the_teams_and_a_team_of_that_name_is_quoted() {
    let names = [known(Named::Owner, "payments", 3)];
    assert_eq!(values("owner:|", &names), ["payments", "none"]);
    assert_eq!(values("owner:no|", &[known(Named::Owner, "none", 1)]), ["\"none\"", "none"]);
}

#[test]
fn comparisons_and_days_are_offered_as_they_are_usually_asked() {
    assert!(values("age:|", &[]).contains(&">2h".to_string()));
    assert_eq!(values("failed:2026-11-15|", &[]), ["2026-11-15", ">=2026-11-15"]);
    for (field, value) in [
        ("age", values("age:|", &[])),
        ("size", values("size:|", &[])),
        ("captured", values("captured:|", &[])),
    ] {
        for value in value {
            Query::parse(&format!("{field}:{value}"), now()).unwrap();
        }
    }
}

#[test]
fn nothing_is_offered_inside_text_and_for_what_stands_in_letters() {
    for text in
        [r#""sta|"#, "key:C|", "payload.cust|", "payload.customer.id:C|", "header.x-|", "id:|", "corr:x|"]
    {
        let (spot, offer) = offer(text, &[known(Named::Class, "C", 1)]);
        assert_eq!(offer, Offer::default(), "{text}: {spot:?}");
    }
    assert_eq!(Spot::at("\"a b", 3).wanted, Wanted::Nothing);
}

#[test]
fn every_example_of_a_field_is_a_query_and_begins_with_it() {
    for field in FIELDS {
        assert_eq!(Query::parse(field.example, now()).unwrap().terms.len(), 1, "{}", field.example);
        assert!(field.example.starts_with(&field.insert()), "{}", field.example);
    }
}

proptest! {
    #[test]
    fn any_text_has_a_spot_at_every_byte(text in "[-a:\"\\\\ .>ß=]{0,24}|(status|class|payload.x):[\"a ]{0,6}", at in 0_usize..40) {
        let spot = Spot::at(&text, at);
        prop_assert!(text.get(spot.replace.clone()).is_some());
        prop_assert!(text.get(spot.term.clone()).is_some());
        let names: Vec<Known> = (0..40).map(|n| known(Named::Class, &format!("a{n} \"b"), n)).collect();
        let offer = spot.offer(names, now());
        prop_assert!(offer.values.len() <= OFFERED);
    }

    #[test]
    fn an_offer_that_is_taken_becomes_a_term_that_is_understood(name in "[a-z <>=:\"\\\\ß-]{1,12}") {
        let names = [known(Named::Class, &name, 1)];
        let text = taken("status:open class:|", &names);
        let query = Query::parse(&text, now()).unwrap();
        prop_assert_eq!(&query.terms[1].matcher, &dlo_core::query::Matcher::Class(name));
    }
}
