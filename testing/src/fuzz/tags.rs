//! What strangers say of tags.

use partition::tags::{Dialect, TagExpression};

/// An expression is read or refused; what is read says the same in parentheses, and what `where` may say a condition may say, too.
pub fn tag_expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    let blobs = [vec![], vec![pair("a", "1")], vec![pair("a", ""), pair("b", "x")]];
    let condition = TagExpression::parse(text, Dialect::Condition);
    let inner = TagExpression::parse(&format!("({text})"), Dialect::Condition);
    let wheres = TagExpression::parse(text, Dialect::WhereInContainer);
    for tags in &blobs {
        if let Ok(condition) = &condition {
            let inner = inner.as_ref().expect("what can be said can be said in parentheses");
            assert_eq!(condition.holds(tags), inner.holds(tags), "{text}");
        }
        if let Ok(wheres) = &wheres {
            let condition = condition.as_ref().expect("a condition can say more");
            assert_eq!(condition.holds(tags), wheres.holds(tags), "{text}");
        }
    }
    if let Ok(expression) = TagExpression::parse(text, Dialect::WhereInAccount) {
        assert!(expression.container().is_none_or(|name| !expression.wants_container(&format!("{name}x"))));
    }
}
