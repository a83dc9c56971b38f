//! Fields that `Connection` nominates: conditions see them as nginx does, and endpoints never get them.

use fairway_model::{Condition, Content, Phases, Template, TemplatePart, Test};

use super::{behind, respond, text};
use crate::support::Running;

/// Answers with the parts, `|` between them.
fn echo(parts: &[TemplatePart]) -> Phases {
    let parts = parts.iter().flat_map(|part| [part.clone(), text("|")]).collect();
    respond(Vec::new(), 200, Content::Text(Template(parts), "text/plain".into()))
}

fn named(name: &str) -> TemplatePart {
    TemplatePart::Field(name.into())
}

/// Asks once for each of these fields, over one connection until an answer closes it.
async fn asked(proxy: &Running, requests: &[&str]) -> Vec<(u16, String)> {
    let mut client = proxy.client().await;
    let mut answers = Vec::new();
    for fields in requests {
        client.send(format!("GET / HTTP/1.1\r\nHost: example.com\r\n{fields}\r\n")).await.unwrap();
        let answer = client.read_response().await.unwrap();
        answers.push((answer.status, answer.text()));
        if answer.header("Connection") == Some("close") {
            client = proxy.client().await;
        }
    }
    answers
}

#[tokio::test]
async fn nobody_hides_a_field_from_a_condition_by_naming_it_in_connection() {
    let bot = Test::Pattern { pattern: "bot".into(), ignore_case: true };
    let condition = |part, test| Condition { value: Template(vec![part]), test, negated: false };
    let (backend, proxy) = behind(vec![
        respond(vec![condition(named("user_agent"), bot)], 403, Content::Status),
        respond(vec![condition(named("x_bad"), Test::Truth)], 403, Content::Status),
        respond(vec![condition(TemplatePart::Cookie("admin".into()), Test::Truth)], 403, Content::Status),
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
    for (request, (status, _)) in requests.iter().zip(asked(&proxy, &requests).await) {
        assert_eq!(status, 403, "{request}");
    }
    assert_eq!(backend.requests().len(), 0);
}

#[tokio::test]
async fn parts_of_a_request_are_those_that_were_received() {
    let (_backend, proxy) = behind(vec![echo(&[
        named("x_one"),
        named("cookie"),
        TemplatePart::Cookie("a".into()),
        TemplatePart::BasicUser,
        named("keep_alive"),
        named("x_auth_request_user"),
    ])])
    .await;
    for (request, echoed) in [
        ("Connection: x-one\r\nX-One: 1\r\nX-Two: 2\r\nx-one: 3\r\n", "1, 3||||||"),
        ("Connection: cookie\r\nCookie: a=1\r\n", "|a=1|1||||"),
        ("Connection: authorization\r\nAuthorization: Basic YTpi\r\n", "|||a|||"),
        // What is for one hop only has no part in conditions, named or not.
        ("Connection: keep-alive, keep-alive, x\r\nKeep-Alive: 1\r\n", "||||||"),
        // A claim of a stranger goes no further, named or not.
        ("Connection: x-auth-request-user\r\nX-Auth-Request-User: root\r\n", "||||||"),
    ] {
        // The request behind it has nothing of it.
        let answers = asked(&proxy, &[request, ""]).await;
        assert_eq!(answers, [(200, echoed.to_owned()), (200, "||||||".to_owned())], "{request}");
    }
}

#[tokio::test]
async fn nominated_fields_do_not_reach_the_endpoint() {
    let (backend, proxy) = behind(vec![respond(
        vec![Condition { value: Template(vec![named("x_bad")]), test: Test::Truth, negated: false }],
        403,
        Content::Status,
    )])
    .await;
    let request = "Connection: x-one, cookie, authorization\r\nX-One: 1\r\nCookie: a=b\r\n\
                   Authorization: Basic YTpi\r\nX-Two: 2\r\n";
    assert_eq!(asked(&proxy, &[request]).await[0].0, 200);
    let got = &backend.requests()[0];
    for name in ["X-One", "Cookie", "Authorization", "Connection"] {
        assert_eq!(got.header(name), None, "{name}");
    }
    assert_eq!(got.header("X-Two"), Some("2"));
}
