//! Headers that `Connection` lists: conditions see them as in nginx, and endpoints never get them.

use fairway_model::{Condition, ConditionTest, Phases, ResponseContent, Template, TemplatePart};

use super::{respond, start_with_filters, text};
use crate::support::Running;

/// Responds with the parts, separated by `|`.
fn echo(parts: &[TemplatePart]) -> Phases {
    let parts = parts.iter().flat_map(|part| [part.clone(), text("|")]).collect();
    respond(Vec::new(), 200, ResponseContent::Text(Template(parts), "text/plain".into()))
}

fn header_part(name: &str) -> TemplatePart {
    TemplatePart::Header(name.into())
}

/// Sends these requests over one connection, until a response closes it.
async fn responses_to(proxy: &Running, requests: &[&str]) -> Vec<(u16, String)> {
    let mut client = proxy.client().await;
    let mut responses = Vec::new();
    for fields in requests {
        client.send(format!("GET / HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n")).await.unwrap();
        let response = client.read_response().await.unwrap();
        responses.push((response.status, response.text()));
        if response.header("Connection") == Some("close") {
            client = proxy.client().await;
        }
    }
    responses
}

#[tokio::test]
async fn naming_a_header_in_connection_does_not_hide_it_from_conditions() {
    let bot = ConditionTest::Pattern { pattern: "bot".into(), ignore_case: true };
    let condition = |part, test| Condition { value: Template(vec![part]), test, negated: false };
    let (backend, proxy) = start_with_filters(vec![
        respond(vec![condition(header_part("user_agent"), bot)], 403, ResponseContent::Status),
        respond(vec![condition(header_part("x_bad"), ConditionTest::Truth)], 403, ResponseContent::Status),
        respond(
            vec![condition(TemplatePart::Cookie("admin".into()), ConditionTest::Truth)],
            403,
            ResponseContent::Status,
        ),
    ])
    .await;
    let requests = [
        "Connection: user-agent\r\nUser-Agent: EvilBot\r\n",
        "Connection: close, x-bad\r\nX-Bad: 1\r\n",
        "Connection: keep-alive\r\nConnection: x-bad\r\nX-Bad: 1\r\n",
        "CONNECTION: X-BAD\r\nx-bad: 1\r\n",
        "X-Bad: 1\r\nConnection:,\tx-bad ,,\r\n",
        "Connection: \"x-bad\"\r\nX-Bad: 1\r\n",
        "Connection: x-bad\r\nX-Bad: 0\r\nX-Bad: 1\r\n",
        "Connection: cookie\r\nCookie: a=b\r\nCookie: admin=1\r\n",
    ];
    for (request, (status, _)) in requests.iter().zip(responses_to(&proxy, &requests).await) {
        assert_eq!(status, 403, "{request}");
    }
    assert_eq!(backend.requests().len(), 0);
}

#[tokio::test]
async fn conditions_use_the_request_as_received() {
    let (_backend, proxy) = start_with_filters(vec![echo(&[
        header_part("x_one"),
        header_part("cookie"),
        TemplatePart::Cookie("a".into()),
        TemplatePart::BasicUser,
        header_part("keep_alive"),
        header_part("x_auth_request_user"),
    ])])
    .await;
    for (request, echoed) in [
        ("Connection: x-one\r\nX-One: 1\r\nX-Two: 2\r\nx-one: 3\r\n", "1, 3||||||"),
        ("Connection: cookie\r\nCookie: a=1\r\n", "|a=1|1||||"),
        ("Connection: authorization\r\nAuthorization: Basic YTpi\r\n", "|||a|||"),
        // Hop-by-hop headers do not take part in conditions, listed or not.
        ("Connection: keep-alive, keep-alive, x\r\nKeep-Alive: 1\r\n", "||||||"),
        // Claims of untrusted clients are not forwarded, listed or not.
        ("Connection: x-auth-request-user\r\nX-Auth-Request-User: root\r\n", "||||||"),
    ] {
        // The next request is not affected.
        let responses = responses_to(&proxy, &[request, ""]).await;
        assert_eq!(responses, [(200, echoed.to_owned()), (200, "||||||".to_owned())], "{request}");
    }
}

#[tokio::test]
async fn nominated_fields_do_not_reach_the_endpoint() {
    let (backend, proxy) = start_with_filters(vec![respond(
        vec![Condition {
            value: Template(vec![header_part("x_bad")]),
            test: ConditionTest::Truth,
            negated: false,
        }],
        403,
        ResponseContent::Status,
    )])
    .await;
    let request = "Connection: x-one, cookie, authorization\r\nX-One: 1\r\nCookie: a=b\r\n\
                   Authorization: Basic YTpi\r\nX-Two: 2\r\n";
    assert_eq!(responses_to(&proxy, &[request]).await[0].0, 200);
    let got = &backend.requests()[0];
    for name in ["X-One", "Cookie", "Authorization", "Connection"] {
        assert_eq!(got.header(name), None, "{name}");
    }
    assert_eq!(got.header("X-Two"), Some("2"));
}
