//! What all clients need to find the server: its address, the development account, and a token.
//! The tests are in tests/; ../with-server starts a server for them.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// For example `http://127.0.0.1:10000/devstoreaccount1`.
pub fn endpoint() -> String {
    std::env::var("LAZULI_BLOB_ENDPOINT").expect("LAZULI_BLOB_ENDPOINT names the server; see ../with-server")
}

/// For example `http://127.0.0.1:10001/devstoreaccount1`.
pub fn queue_endpoint() -> String {
    std::env::var("LAZULI_QUEUE_ENDPOINT").expect("LAZULI_QUEUE_ENDPOINT names the server; see ../with-server")
}

/// For example `http://127.0.0.1:10002/devstoreaccount1`.
pub fn table_endpoint() -> String {
    std::env::var("LAZULI_TABLE_ENDPOINT").expect("LAZULI_TABLE_ENDPOINT names the server; see ../with-server")
}

/// For example `http://127.0.0.1:10003/devstoreaccount1`.
pub fn file_endpoint() -> String {
    std::env::var("LAZULI_FILE_ENDPOINT").expect("LAZULI_FILE_ENDPOINT names the server; see ../with-server")
}

/// The other ways to the Blob service: host style, and both styles over https where a server speaks it (../with-server --tokens).
pub fn other_endpoints() -> Vec<String> {
    other_ways("blob", &endpoint(), "LAZULI_TOKENS_ENDPOINT")
}

/// The same for the File service.
pub fn other_file_endpoints() -> Vec<String> {
    other_ways("file", &file_endpoint(), "LAZULI_TOKENS_FILE_ENDPOINT")
}

fn other_ways(service: &str, plain: &str, secure: &str) -> Vec<String> {
    let host_style = |scheme: &str, url: &str| {
        let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port").to_string();
        format!("{scheme}://{ACCOUNT}.{service}.localhost:{port}")
    };
    let mut all = vec![host_style("http", plain)];
    if let Ok(secure) = std::env::var(secure) {
        all.push(host_style("https", &secure));
        all.push(secure);
    }
    all
}

/// What the clients send with: it knows that `*.localhost` is this machine (RFC 6761 section 6.3; not every resolver does), and trusts the
/// server's certificate. `agent` is the name the client goes by.
pub fn http(agent: &str) -> reqwest::Client {
    provide_tls();
    let here = ([127, 0, 0, 1], 0).into(); // the port is the URL's
    let mut builder = reqwest::Client::builder().user_agent(agent);
    for service in ["blob", "file"] {
        builder = builder.resolve(&format!("{ACCOUNT}.{service}.localhost"), here);
    }
    if let Ok(path) = std::env::var("LAZULI_CERTIFICATE") {
        let pem = std::fs::read(path).expect("LAZULI_CERTIFICATE is a file");
        builder = builder.tls_certs_merge([reqwest::Certificate::from_pem(&pem).expect("a certificate")]);
    }
    builder.build().expect("an HTTP client")
}

/// An account SAS for blobs with these permissions, good for the rest of this century.
pub fn account_sas(permissions: &str) -> String {
    sas("b", permissions)
}

/// The same for queues.
pub fn queue_sas(permissions: &str) -> String {
    sas("q", permissions)
}

fn sas(service: &str, permissions: &str) -> String {
    let (version, expiry) = ("2021-12-02", "2099-01-01T00:00:00Z");
    let text = format!("{ACCOUNT}\n{permissions}\n{service}\nsco\n\n{expiry}\n\n\n{version}\n\n");
    let key = BASE64.decode(KEY).expect("the published key is Base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    let signature = BASE64.encode(mac.finalize().into_bytes());
    let escaped = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("sv={version}&ss={service}&srt=sco&sp={permissions}&se={}&sig={escaped}", expiry.replace(':', "%3A"))
}

/// The peer differs from the service here and there (../GAPS.md).
pub fn on_azurite() -> bool {
    std::env::var("LAZULI_TEST_SERVER").is_ok_and(|kind| kind != "lazuli")
}

/// For the clients that cannot make containers.
pub async fn make_container(endpoint: &str, name: &str) {
    make(format!("{endpoint}/{name}?restype=container&{}", account_sas("c"))).await;
}

/// For the clients that cannot make shares.
pub async fn make_share(endpoint: &str, name: &str) {
    make(format!("{endpoint}/{name}?restype=share&{}", sas("f", "c"))).await;
}

async fn make(url: String) {
    let request = http("").put(url).header("x-ms-version", "2021-12-02").header("content-length", "0");
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 201, "{answer:?}");
}

/// A container name no other test has.
pub fn fresh_name(word: &str) -> String {
    let nanoseconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("{word}-{nanoseconds}")
}

/// The HTTP library under them wants a TLS provider before it will talk, even without TLS.
pub fn provide_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // the first test to come sets it
}
