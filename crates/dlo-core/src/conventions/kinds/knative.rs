//! Knative: CloudEvents extensions, as headers of HTTP (`ce-`) or Kafka (`ce_`), or as fields of a structured event. The
//! data is Base64, cut in its encoded form, so that its padding may be missing; where it is none, it is plain text.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::value::Value;
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "knative",
    writer: Writer::Client,
    marks: &[
        Mark::Name("ce-knativeerrordest"),
        Mark::Name("ce_knativeerrordest"),
        Mark::Field("knativeerrordest"),
    ],
    strip: &[Mark::Prefix("ce-knativeerror"), Mark::Prefix("ce_knativeerror")],
    read,
};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn read(view: &View<'_>) -> Option<Reading> {
    let attribute = |name: &str| {
        let header = view.any_header(&[&format!("ce-{name}"), &format!("ce_{name}")]);
        if header.is_some() { header } else { view.field(name) }
    };
    Some(Reading {
        consumer: attribute("knativeerrordest").name(),
        error_code: attribute("knativeerrorcode").class(),
        error_message: data(&attribute("knativeerrordata")),
        event_type: attribute("type").name(),
        correlation_id: attribute("id").id(),
        content_type: attribute("datacontenttype").name(),
        published_at: attribute("time").time(),
        ..Reading::default()
    })
}

fn data(value: &Value<'_>) -> Option<String> {
    let plain = value.message()?;
    // A cut in the encoded text may leave a single sextet, which is no byte. Bytes, since plain text is cut anywhere too.
    let whole = plain.trim_end_matches('=').as_bytes();
    let whole = if whole.len() % 4 == 1 { &whole[..whole.len() - 1] } else { whole };
    match LENIENT.decode(whole).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) if !text.is_empty() => Some(text),
        Some(_) | None => Some(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Found, read};
    use crate::message::Message;
    use crate::origin::BrokerKind;

    #[test]
    fn plain_text_that_ends_in_the_middle_of_a_sextet_is_left_as_it_is() {
        let mut message = Message::default();
        message.headers.push_text("ce_knativeerrordest", "http://pricing.svc");
        // Nine bytes, of which the last one is inside a character.
        message.headers.push_text("ce_knativeerrordata", "delive\u{fffd}");
        let reading = read(&message, Found { broker: BrokerKind::Kafka, queue: "dls" });
        assert_eq!(reading.error_message.as_deref(), Some("delive\u{fffd}"));
    }
}
