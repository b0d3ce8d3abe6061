//! Keys and scopes of the client's own are refused by name wherever they may be sent, and nothing is stored.

use contract::Service;
use contract::operations::Anonymous;

use crate::examples::{everything, example, prepared};

const HEADERS: [(&str, &str); 9] = [
    ("x-ms-encryption-key", "MDEyMzQ1NjcwMTIzNDU2NzAxMjM0NTY3MDEyMzQ1Njc="),
    ("x-ms-encryption-key-sha256", "3QFFFpRA5+XANHqwwbT4yXDmrT/2JaLt/FKHjzhOdoE="),
    ("x-ms-encryption-algorithm", "AES256"),
    ("x-ms-encryption-scope", "scope"),
    ("x-ms-default-encryption-scope", "scope"),
    ("x-ms-deny-encryption-scope-override", "true"),
    ("x-ms-source-encryption-key", "MDEyMzQ1NjcwMTIzNDU2NzAxMjM0NTY3MDEyMzQ1Njc="),
    ("x-ms-source-encryption-key-sha256", "3QFFFpRA5+XANHqwwbT4yXDmrT/2JaLt/FKHjzhOdoE="),
    ("x-ms-source-encryption-algorithm", "AES256"),
];

#[tokio::test]
async fn refused_by_name_on_every_operation() {
    // Who may lend keys is asked before anything else is looked at.
    let rows = Service::Blob.rows().iter().filter(|row| row.built && row.anonymous != Anonymous::Always);
    for row in rows.filter(|row| row.id != contract::OperationId::GetBlobUserDelegationKey) {
        let world = prepared(row).await;
        let before = everything(&world).await;
        for (name, value) in HEADERS {
            for secure in [false, true] {
                let request = example(row).header(name, value);
                let answer = if secure { world.send_secure(&request).await } else { world.send(&request).await };
                assert_eq!((answer.status, answer.code()), (501, "NotImplemented"), "{:?} {name}", row.id);
                let told = row.methods[0].name() == "HEAD" || answer.text().contains(name);
                assert!(told, "{:?} {name}: {}", row.id, answer.text());
            }
        }
        assert_eq!(everything(&world).await, before, "{:?} was refused and changed something", row.id);
    }
}
