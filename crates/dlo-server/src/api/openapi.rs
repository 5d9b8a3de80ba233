//! The description of the API. Written by hand in `openapi.json`, kept true by the tests below and in `tests/it`.

use axum::http::header;
use axum::response::IntoResponse;

pub(crate) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], crate::OPENAPI)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Pages are for people; everything else is described.
    fn is_described(path: &str) -> bool {
        path.starts_with("/api/") || ["/healthz", "/readyz", "/metrics"].contains(&path)
    }

    #[test]
    fn every_route_is_described_and_every_description_is_a_route() {
        let document: serde_json::Value = serde_json::from_str(crate::OPENAPI).unwrap();
        let described: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods =
                    item.as_object().unwrap().keys().filter(|key| ["get", "post"].contains(&key.as_str()));
                methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
            })
            .collect();
        let routed: BTreeSet<(String, String)> = crate::routes()
            .into_iter()
            .filter(|(_, path)| is_described(path))
            .map(|(method, path)| (method.to_string(), path.to_string()))
            .collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn every_field_of_a_letter_that_is_taken_is_described() {
        let document: serde_json::Value = serde_json::from_str(crate::OPENAPI).unwrap();
        let described: BTreeSet<&str> = document["components"]["schemas"]["LetterIn"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(described, crate::ingest::item::KNOWN.iter().copied().collect());
    }
}
