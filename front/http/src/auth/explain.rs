//! Why a token or a signature is refused, in words: what the request brought, what each field of it means, and the string that the server
//! would have signed. A pure function of the request; no key and no signature is ever in it.

use std::fmt;

use contract::{ApiVersion, Service};

use super::strings::without_secrets;
use super::{Kind, account_sas, service_sas, shared_key, user_delegation};
use crate::query::Query;
use crate::request::Request;

/// What a request brought to show who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    pub kind: &'static str,
    /// Field, value, meaning; in the order of the request.
    pub fields: Vec<(String, String, String)>,
    /// What is signed, or why it cannot be told.
    pub string_to_sign: Result<String, String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (name, value, meaning) in &self.fields {
            write!(f, "; {name}={value} ({meaning})")?;
        }
        match &self.string_to_sign {
            Ok(text) if text.is_empty() => Ok(()),
            Ok(text) => write!(f, "; string to sign {text:?}"),
            Err(why) => write!(f, "; {why}"),
        }
    }
}

pub fn explain(request: &Request<'_>) -> Explanation {
    let (kind, string_to_sign) = match Kind::of(request) {
        Ok(Kind::SharedKey(form, _)) => {
            ("a request signed with an account key", Ok(shared_key::string_to_sign(request, form)))
        }
        Ok(Kind::Bearer(_)) => ("a bearer token", Ok(String::new())),
        Ok(Kind::AccountSas) => ("an account SAS", account_sas::string_to_sign(request)),
        Ok(Kind::ServiceSas) => ("a service SAS", service_sas::string_to_sign(request)),
        Ok(Kind::UserDelegationSas { .. }) => {
            let version = ApiVersion::parse(request.query.get("sv").unwrap_or_default());
            let string = user_delegation::string_to_sign(request, version.unwrap_or(ApiVersion::NEWEST_KNOWN));
            ("a user delegation SAS", string)
        }
        Ok(Kind::Nothing) => ("no credential", Ok(String::new())),
        Err(_) => ("an Authorization header of no known scheme", Ok(String::new())),
    };
    let string_to_sign = string_to_sign.map(|text| without_secrets(&text)).map_err(|refusal| {
        refusal.detail.first().map_or_else(|| refusal.code.message().to_string(), |(_, why)| why.clone())
    });
    Explanation { kind, fields: fields(request.service, &request.query), string_to_sign }
}

/// The fields of a SAS, each with what it means; the signature is left out.
fn fields(service: Service, query: &Query) -> Vec<(String, String, String)> {
    let known = query.all().iter().filter(|(name, _)| query.get("sig").is_some() && name != "sig");
    known.filter_map(|(name, value)| Some((name.clone(), value.clone(), meaning(service, name, value)?))).collect()
}

fn meaning(service: Service, name: &str, value: &str) -> Option<String> {
    let each = |words: &dyn Fn(char) -> &'static str| value.chars().map(words).collect::<Vec<_>>().join(", ");
    let text = match name {
        "sv" => "the version it is signed by",
        "ss" => return Some(format!("services: {}", each(&service_word))),
        "srt" => return Some(format!("on: {}", each(&resource_type_word))),
        "sr" => return Some(format!("for {}", resource_word(service, value))),
        "sp" => return Some(format!("may: {}", each(&permission_word))),
        "st" => "valid from",
        "se" => "valid until",
        "sip" => "only from these addresses",
        "spr" => "only over these protocols",
        "si" => "the stored access policy that says the rest",
        "ses" => "the encryption scope",
        "tn" => "the table",
        "spk" | "srk" | "epk" | "erk" => "a bound of the keys it reaches",
        "rscc" | "rscd" | "rsce" | "rscl" | "rsct" => "a header to answer instead of the stored one",
        "sdd" => "the depth of the directory",
        "skoid" => "in the name of this principal",
        "sktid" => "of this tenant",
        "skt" => "its key is valid from",
        "ske" => "its key is valid until",
        "sks" => return Some(format!("its key is for {}", each(&service_word))),
        "skv" => "the version its key was made by",
        "saoid" | "suoid" => "the one who acts",
        "scid" => "for the logs",
        "sduoid" | "skdutid" => "only with this user's bearer token",
        "srh" => "headers that must be as they were signed",
        "srq" => "parameters that must be as they were signed",
        _ => return None,
    };
    Some(text.to_string())
}

fn service_word(letter: char) -> &'static str {
    Service::ALL.into_iter().find(|service| service.letter() == letter).map_or("an unknown service", Service::name)
}

fn resource_type_word(letter: char) -> &'static str {
    match letter {
        's' => "the service itself",
        'c' => "containers, queues, tables, shares",
        'o' => "blobs, messages, entities, files",
        _ => "an unknown kind",
    }
}

fn resource_word(service: Service, value: &str) -> &'static str {
    match (service, value) {
        (Service::Blob, "b") => "one blob",
        (Service::Blob, "bs") => "one snapshot",
        (Service::Blob, "bv") => "one version of a blob",
        (Service::Blob, "c") => "a container and its blobs",
        (Service::Blob, "d") => "a directory",
        (Service::File, "f") => "one file",
        (Service::File, "s") => "a share and its files",
        (Service::Queue, "q") => "a queue",
        _ => "something unknown",
    }
}

fn permission_word(letter: char) -> &'static str {
    match letter {
        'r' => "read",
        'a' => "add",
        'c' => "create",
        'w' => "write",
        'd' => "delete",
        'x' => "delete versions",
        'y' => "delete for ever",
        'l' => "list",
        't' => "tags",
        'f' => "find by tags",
        'u' => "update",
        'p' => "process",
        'm' => "move",
        'e' => "execute",
        'o' => "own",
        'i' => "set immutability",
        _ => "an unknown letter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::scripted;

    #[track_caller]
    fn check(service: Service, target: &str, header: &str, expected: &[&str]) {
        let head = format!("GET /devstoreaccount1/{target} HTTP/1.1\nHost: localhost{header}");
        let text = scripted(service, &head, |request| explain(request).to_string());
        for part in expected {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("c2VjcmV0"), "the signature is shown: {text}");
    }

    #[test]
    fn tokens_in_words() {
        check(Service::Blob, "cont/b", "", &["no credential"]);
        check(
            Service::Blob,
            "cont/b",
            "\nAuthorization: SharedKey a:c2VjcmV0",
            &["signed with an account key", "/devstoreaccount1/devstoreaccount1/cont/b"],
        );
        check(Service::Blob, "cont/b", "\nAuthorization: Bearer c2VjcmV0", &["a bearer token"]);
        check(Service::Blob, "cont/b", "\nAuthorization: Basic c2VjcmV0", &["no known scheme"]);
        check(
            Service::Blob,
            "cont/b?sv=2021-08-06&ss=bq&srt=co&sp=rl&se=2030-01-01&sig=c2VjcmV0",
            "",
            &[
                "an account SAS",
                "ss=bq (services: blob, queue)",
                "sp=rl (may: read, list)",
                "se=2030-01-01 (valid until)",
                r#"string to sign "devstoreaccount1\nrl\nbq\nco\n"#,
            ],
        );
        check(
            Service::Blob,
            "cont/b?sv=2021-08-06&sr=b&sp=r&se=2030-01-01&sig=c2VjcmV0&other=1",
            "",
            &["a service SAS", "sr=b (for one blob)", "/blob/devstoreaccount1/cont/b"],
        );
        check(Service::Blob, "cont/b?sp=r&se=2030-01-01&sig=c2VjcmV0", "", &["a service SAS", "sv is mandatory"]);
        check(Service::Blob, "c?restype=container&sv=2021-08-06&sr=b&sig=c2VjcmV0", "", &["sr=b does not fit"]);
        check(
            Service::Blob,
            "cont/b?sv=2021-08-06&sr=b&sp=r&skoid=1&sks=b&sig=c2VjcmV0",
            "",
            &["a user delegation SAS", "skoid=1 (in the name of this principal)", "its key is for blob"],
        );
    }
}
