//! Tokens made and judged.

use std::net::Ipv4Addr;

use super::*;

fn visit() -> Visit {
    let now = Timestamp::parse_iso8601("2029-12-31T00:00:00Z").expect("a time");
    Visit { now, client: IpAddr::V4(Ipv4Addr::LOCALHOST), tls: false }
}

fn made(service: Service, name: &str, fields: &str) -> Result<String, String> {
    let fields: Vec<(&str, String)> = fields
        .split('&')
        .map(|pair| pair.split_once('=').expect("a pair"))
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    make(&Account::development(), &Wanted { service, name, fields: &fields }, visit())
}

fn judged(text: &str) -> Judged {
    judge(text, |name| (name == "devstoreaccount1").then(Account::development), visit()).expect("a token")
}

const UNTIL: &str = "se=2030-01-01T00:00:00Z&sv=2024-11-04";

#[test]
fn what_is_made_is_accepted() {
    for (service, port, name, fields, query) in [
        (Service::Blob, 10000, "", "ss=bq&srt=sco&sp=rl", ""),
        (Service::Blob, 10000, "cont", "sr=c&sp=rl", ""),
        (Service::Blob, 10000, "cont/dir/b 1+ü.txt", "sr=b&sp=r&rsct=text/plain&spr=https,http&sip=127.0.0.1", ""),
        (Service::Blob, 10000, "cont/b", "sr=bs&sp=r&snapshot=2024-01-02T03:04:05.0000000Z", ""),
        (Service::Blob, 10000, "cont/b", "sr=bv&sp=r&versionid=2024-01-02T03:04:05.0000000Z", ""),
        (Service::Queue, 10001, "line", "sp=raup", "/messages"),
        (Service::Table, 10002, "People", "tn=People&sp=raud&spk=a&srk=1&epk=b&erk=2", ""),
        (Service::File, 10003, "share", "sr=s&sp=rl", ""),
        (Service::File, 10003, "share/d/f.txt", "sr=f&sp=r", ""),
        (
            Service::Blob,
            10000,
            "cont/b",
            "sr=b&sp=r&skoid=11111111-1111-1111-1111-111111111111&sktid=t&skt=2029-12-30T00:00:00Z&ske=2030-01-02T00:00:00Z&sks=b&skv=2024-11-04",
            "",
        ),
    ] {
        let token =
            made(service, name, &format!("{fields}&{UNTIL}")).unwrap_or_else(|error| panic!("{fields}: {error}"));
        let path = percent_encode(name, "/");
        let judged = judged(&format!("http://127.0.0.1:{port}/devstoreaccount1/{path}{query}?{token}"));
        assert_eq!(judged.refusals, [""; 0], "{fields}");
        assert_eq!(judged.unknown, [""; 0], "{fields}");
        assert_eq!(judged.service, service, "{fields}");
    }
}

#[test]
fn what_is_wrong_is_not_made() {
    for (service, name, fields, words) in [
        (Service::Blob, "cont/b", "sr=b&sp=rq", "unknown letter"),
        (Service::Blob, "cont/dir", "sr=d&sdd=1&sp=r", "sr=d does not fit"),
        (Service::Blob, "", "ss=x&srt=o&sp=r", "ss"),
        (Service::Blob, "cont/b", "sr=b", "mandatory"),
        (Service::Blob, "cont/b", "sr=b&sp=r&spr=http", "spr is not valid"),
        (Service::Blob, "cont/b", "sr=b&sp=r&sip=::1", "sip"),
        (Service::Blob, "cont/b", "sr=b&sp=r&st=2031-01-01T00:00:00Z", "before it begins"),
        (Service::Table, "t!", "tn=t!&sp=r", "tn is not the name"),
        (Service::Queue, "line", "sp=r&se=tomorrow", "not a time"),
    ] {
        let error =
            made(service, name, &format!("{fields}&{UNTIL}")).err().unwrap_or_else(|| panic!("{fields} was made"));
        assert!(error.contains(words), "{fields}: {error}");
    }
    // For later, for others, for https: it is a good token.
    for fields in ["st=2029-12-31T12:00:00Z", "sip=10.0.0.1", "spr=https"] {
        made(Service::Blob, "cont/b", &format!("sr=b&sp=r&{fields}&{UNTIL}")).expect(fields);
    }
}

#[test]
fn why_it_would_be_refused() {
    let token = made(Service::Blob, "cont/b", &format!("sr=b&sp=r&{UNTIL}")).expect("right");
    let at = |path: &str, token: &str| judged(&format!("http://127.0.0.1:10000/devstoreaccount1/{path}?{token}"));
    let refused = |judged: Judged, words: &str| {
        assert!(judged.refusals.iter().any(|why| why.contains(words)), "{words}: {:?}", judged.refusals);
    };
    refused(at("cont/other", &token), "Signature did not match");
    refused(at("cont/b", &token.replace("sp=r", "sp=w")), "Signature did not match");
    refused(at("cont/b", &token.replace("2030-", "2028-")), "Signed expiry time");
    refused(at("cont/b", &token.replace("2030-", "2028-")), "Signature did not match");
    refused(at("cont/b", &token.replace("sv=2024-11-04", "sv=new")), "sv is not valid");
    refused(at("cont/b", &token.replace("sv=2024-11-04", "")), "sv is mandatory");
    let elsewhere =
        judged("https://somebody.blob.core.windows.net/cont/b?sv=2024-11-04&sr=b&sp=r&se=2030-01-01&sig=AA%3D%3D");
    assert_eq!(elsewhere.place, Some(("somebody".into(), "cont/b".into())));
    assert!(elsewhere.refusals.is_empty() && elsewhere.unknown[0].contains("key is not known"), "{elsewhere:?}");
    let alone = judged(&format!("?{token}"));
    assert!(alone.refusals.is_empty() && alone.unknown[0].contains("address"), "{alone:?}");
    let policy = made(Service::Blob, "cont", "sr=c&si=p&sv=2024-11-04").expect("right");
    assert!(at("cont", &policy).unknown[0].contains("stored policy"));
    assert!(judge("http://h/c/b?x=1", |_| None, visit()).is_err());
    assert!(judge("no token", |_| None, visit()).is_err());
}
