use bytes::BytesMut;
use contract::Service;
use contract::operations::OperationId;
use std::time::Duration;

use super::*;
use crate::tokens::Tokens;
use crate::wire::BodyKind;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH.plus_seconds(1_800_000_000)
}

fn issuer() -> Issuer {
    Issuer::new("127.0.0.1:10004".parse().expect("right"), true, Id(1)).expect("a key")
}

/// Status and answer.
async fn ask(issuer: &Issuer, line: &str, headers: &str, form: &str) -> (u16, Value) {
    let text = format!("{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n", form.len());
    let (head, _) = Head::parse(text.as_bytes()).expect("right").expect("whole");
    let (mut transport, mut buffer) = (tokio::io::duplex(1).0, BytesMut::from(form));
    let mut body =
        Body::new(&mut transport, &mut buffer, BodyKind::Length(form.len() as u64), false, Duration::from_secs(1));
    let answer = issuer.answer(&head, &mut body, now()).await;
    let ResponseBody::Bytes(bytes) = answer.body else { panic!("no document") };
    (answer.status, serde_json::from_slice(&bytes).expect("JSON"))
}

const HOST: &str = "Host: localhost:10004\r\n";
const FORM: &str =
    "grant_type=client_credentials&client_id=me&client_secret=s&scope=https%3A%2F%2Fstorage.azure.com%2F.default";

#[tokio::test]
async fn tokens_that_are_trusted() {
    let issuer = issuer();
    let tokens = Tokens::of_nobody(Vec::new(), Vec::new(), None).and_of(&issuer).expect("right");
    let v1 = "grant_type=client_credentials&client_id=me&client_secret=s&resource=https://storage.azure.com/";
    let guid = "/11111111-1111-1111-1111-111111111111/oauth2/v2.0/token";
    let identity = format!("{HOST}X-IDENTITY-HEADER: lazuli\r\n");
    let metadata = format!("{HOST}Metadata: true\r\n");
    let resource = "resource=https%3A%2F%2Fstorage.azure.com";
    for (line, headers, form, object, tenant) in [
        ("POST /adfs/oauth2/v2.0/token", HOST, FORM, "me", TENANT),
        (&format!("POST {guid}"), HOST, FORM, "me", &guid[1..37]),
        ("POST /common/oauth2/token", HOST, v1, "me", TENANT),
        (&format!("GET /msi/token?api-version=2019-08-01&{resource}"), &identity, "", PRINCIPAL, TENANT),
        (&format!("GET /msi/token?api-version=2019-08-01&client_id=you&{resource}"), &identity, "", "you", TENANT),
        (&format!("GET /metadata/identity/oauth2/token?{resource}"), &metadata, "", PRINCIPAL, TENANT),
    ] {
        let (status, answer) = ask(&issuer, line, headers, form).await;
        assert_eq!(status, 200, "{line}: {answer}");
        let token = answer["access_token"].as_str().expect("a token");
        let principal = tokens.verify(token, now()).expect("trusted");
        assert_eq!((principal.object.as_str(), principal.tenant.as_str()), (object, tenant), "{line}");
        assert!(tokens.verify(token, now().plus_seconds(TOKEN_SECONDS + 301)).is_err(), "it expires");
        for (service, id) in [
            (Service::Blob, OperationId::PutBlockBlob),
            (Service::Blob, OperationId::GetBlobUserDelegationKey),
            (Service::Queue, OperationId::CreateQueue),
            (Service::Table, OperationId::CreateTable),
            (Service::File, OperationId::CreateFile),
        ] {
            let row = service.rows().iter().find(|row| row.id == id).expect("a row");
            assert!(tokens.allow(&principal, "any", "within", (service, row), true), "{id:?}");
        }
    }
    let stranger = self::issuer();
    let (_, answer) = ask(&stranger, "POST /adfs/oauth2/v2.0/token", HOST, FORM).await;
    assert!(tokens.verify(answer["access_token"].as_str().expect("a token"), now()).is_err(), "another one's");
}

/// Roles that were assigned are all there are.
#[tokio::test]
async fn roles_as_they_are_assigned() {
    let issuer = issuer();
    let role = contract::roles::Role::named("Storage Blob Data Reader").expect("a role");
    let assigned = crate::tokens::Assignment { principal: "me".into(), role, account: None, within: None };
    let tokens = Tokens::of_nobody(Vec::new(), vec![assigned], None).and_of(&issuer).expect("right");
    for (client, id, expected) in [
        ("me", OperationId::GetBlob, true),
        ("me", OperationId::PutBlockBlob, false),
        ("you", OperationId::GetBlob, false),
    ] {
        let form = FORM.replace("=me", &format!("={client}"));
        let (_, answer) = ask(&issuer, "POST /adfs/oauth2/v2.0/token", HOST, &form).await;
        let principal = tokens.verify(answer["access_token"].as_str().expect("a token"), now()).expect("trusted");
        let row = Service::Blob.rows().iter().find(|row| row.id == id).expect("a row");
        assert_eq!(tokens.allow(&principal, "any", "c", (Service::Blob, row), false), expected, "{client} {id:?}");
    }
}

#[tokio::test]
async fn what_is_refused() {
    let issuer = issuer();
    let token = "POST /adfs/oauth2/v2.0/token";
    let without = |name: &str| FORM.split('&').filter(|part| !part.starts_with(name)).collect::<Vec<_>>().join("&");
    let long = format!("{FORM}&x={}", "x".repeat(70_000));
    let identity = "GET /msi/token?resource=https://storage.azure.com";
    for (line, headers, form, status, words) in [
        (token, HOST, without("grant_type"), 400, "grant_type"),
        (token, HOST, without("client_id"), 400, "client_id"),
        (token, HOST, without("client_secret"), 401, "client_secret"),
        (token, HOST, without("scope"), 400, "scope"),
        (token, HOST, FORM.replace(".default", "User.Read"), 400, "/.default"),
        (token, HOST, FORM.replace("client_credentials", "password"), 400, "unsupported grant type"),
        (token, HOST, FORM.replace("=me", "=a%20b"), 400, "words"),
        (token, HOST, "client_id=%ff".into(), 400, "cannot be read"),
        (token, HOST, long, 400, "too large"),
        (token, "Host: attacker.example\r\n", FORM.into(), 400, "localhost"),
        (token, "Host: 192.0.2.1:10004\r\n", FORM.into(), 400, "localhost"),
        ("GET /adfs/oauth2/v2.0/token", HOST, String::new(), 404, "method"),
        ("GET /", HOST, String::new(), 404, "nothing"),
        (identity, HOST, String::new(), 401, "IDENTITY_HEADER"),
        (identity, "Host: localhost\r\nX-IDENTITY-HEADER: other\r\n", String::new(), 401, "IDENTITY_HEADER"),
        ("GET /msi/token", "Host: localhost\r\nX-IDENTITY-HEADER: lazuli\r\n", String::new(), 400, "resource"),
        ("GET /metadata/identity/oauth2/token?resource=r", HOST, String::new(), 400, "metadata header"),
    ] {
        let (found, answer) = ask(&issuer, line, headers, &form).await;
        assert_eq!(found, status, "{line}: {answer}");
        assert!(answer["error_description"].as_str().expect("words").contains(words), "{line}: {answer}");
        assert!(answer.get("access_token").is_none());
    }
}

#[tokio::test]
async fn what_it_says_of_itself() {
    let issuer = issuer();
    for path in ["/adfs/.well-known/openid-configuration", "/common/v2.0/.well-known/openid-configuration"] {
        for host in ["localhost:10004", "127.0.0.1:10004", "[::1]:10004", "any.localhost"] {
            let (status, answer) = ask(&issuer, &format!("GET {path}"), &format!("Host: {host}\r\n"), "").await;
            assert_eq!((status, answer["issuer"].as_str()), (200, Some(issuer.name().as_str())), "{host}");
            let endpoint = answer["token_endpoint"].as_str().expect("an endpoint");
            let tenant = path.split('/').nth(1).expect("a tenant");
            assert_eq!(endpoint, format!("https://localhost:10004/{tenant}/oauth2/v2.0/token"));
        }
    }
    let (status, keys) = ask(&issuer, &format!("GET /{TENANT}/discovery/v2.0/keys"), HOST, "").await;
    assert_eq!((status, keys["keys"][0]["alg"].as_str()), (200, Some("ES256")));
    assert!(Tokens::new(vec![issuer.name()], Vec::new(), &keys.to_string(), Vec::new(), None).is_ok());
}
