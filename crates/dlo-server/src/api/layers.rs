//! What every request passes: counting, security headers, panics, the number served at once; and what is answered where
//! no route is.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{HeaderName, HeaderValue, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::error::Problem;
use crate::office::Office;

/// Our own script and style and nothing else, no frame: what a payload contains stays text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const SECURITY: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Counts the answer by route and status, and puts the security headers on it.
pub(crate) async fn observe(
    State(office): State<Arc<Office>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    office.metrics.answered(&method, route, response.status().as_u16(), begun.elapsed());
    for (name, value) in SECURITY {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A defect of ours costs one request, not the office.
pub(crate) async fn catch_panic(request: Request<Body>, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a request panicked");
        let detail = "the office failed on this request; its log says where";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail).into_response()
    })
}

/// Serves so many requests at once and no more.
pub(crate) async fn within_limit(
    State(office): State<Arc<Office>>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let Ok(_place) = office.requests.try_acquire() else {
        let detail = "as many requests as the office serves at once are under way; try again shortly";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(1).into_response();
    };
    next.run(request).await
}

pub(crate) async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "there is nothing here; the API is described at /api/v1/openapi.json",
    )
}

pub(crate) async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        "this path takes another method; `Allow` names it",
    )
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_as_a_problem() {
        async fn defect() -> &'static str {
            panic!("a defect")
        }
        let router: Router = Router::new().route("/", get(defect)).layer(from_fn(catch_panic));
        let response =
            router.oneshot(Request::builder().uri("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
