use super::*;

fn read(body: &str) -> Result<SentEntity, Refusal> {
    read_entity(body.as_bytes())
}

#[track_caller]
fn refused(body: &str, code: &str) {
    assert_eq!(read(body).map_err(|refusal| refusal.code.name()).err(), Some(code), "{body}");
}

/// The one property `p` of an entity.
fn one(body: &str) -> Value {
    let entity = read(body).expect(body);
    let stored = StoredEntity::new(Timestamp::from_ticks(1), entity.properties.iter());
    match stored.property("p").expect(body) {
        ValueRef::String(text) => Value::String(text.into()),
        ValueRef::Binary(bytes) => Value::Binary(bytes.into()),
        ValueRef::Boolean(value) => Value::Boolean(value),
        ValueRef::Int32(value) => Value::Int32(value),
        ValueRef::Int64(value) => Value::Int64(value),
        ValueRef::Double(value) => Value::Double(value),
        ValueRef::DateTime(value) => Value::DateTime(value),
        ValueRef::Guid(value) => Value::Guid(value),
    }
}

fn moment(text: &str) -> Timestamp {
    parse_date_time(text).expect("a time")
}

#[test]
fn values_in() {
    let guid = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
    for (body, expected) in [
        (r#"{"p":"text"}"#, Value::String("text".into())),
        (r#"{"p":"a\"\\\/\b\u00e9\ud83d\ude00"}"#, Value::String("a\"\\/\u{8}\u{e9}\u{1f600}".into())),
        (r#"{"p":"2020-01-01T00:00:00Z"}"#, Value::String("2020-01-01T00:00:00Z".into())),
        (r#"{"p":"text","p@odata.type":"Edm.String"}"#, Value::String("text".into())),
        (r#"{"p":42}"#, Value::Int32(42)),
        (r#"{"p":-2147483648}"#, Value::Int32(i32::MIN)),
        (r#"{"p":"42","p@odata.type":"Edm.Int32"}"#, Value::Int32(42)),
        (r#"{"p@odata.type":"Edm.Int64","p":"9223372036854775807"}"#, Value::Int64(i64::MAX)),
        (r#"{"p":"-9223372036854775808","p@odata.type":"Edm.Int64"}"#, Value::Int64(i64::MIN)),
        (r#"{"p@odata.type":"Edm.Int64","p":9007199254740993}"#, Value::Int64(9_007_199_254_740_993)),
        (r#"{"p":3.0}"#, Value::Double(3.0)),
        (r#"{"p":1e5}"#, Value::Double(1e5)),
        (r#"{"p":-0.1}"#, Value::Double(-0.1)),
        (r#"{"p":4,"p@odata.type":"Edm.Double"}"#, Value::Double(4.0)),
        (r#"{"p":"4.5","p@odata.type":"Edm.Double"}"#, Value::Double(4.5)),
        (r#"{"p":"Infinity","p@odata.type":"Edm.Double"}"#, Value::Double(f64::INFINITY)),
        (r#"{"p":"-Infinity","p@odata.type":"Edm.Double"}"#, Value::Double(f64::NEG_INFINITY)),
        (r#"{"p":true}"#, Value::Boolean(true)),
        (r#"{"p":false,"p@odata.type":"Edm.Boolean"}"#, Value::Boolean(false)),
        (
            r#"{"p":"2017-11-10T02:43:35.8460923Z","p@odata.type":"Edm.DateTime"}"#,
            Value::DateTime(moment("2017-11-10T02:43:35.8460923Z")),
        ),
        (
            r#"{"p":"2017-11-10T02:43:35","p@odata.type":"Edm.DateTime"}"#,
            Value::DateTime(moment("2017-11-10T02:43:35Z")),
        ),
        (
            r#"{"p":"2017-11-10T02:43:35+01:00","p@odata.type":"Edm.DateTime"}"#,
            Value::DateTime(moment("2017-11-10T01:43:35Z")),
        ),
        (r#"{"p":"01234567-89AB-cdef-0123-456789abcdef","p@odata.type":"Edm.Guid"}"#, Value::Guid(guid)),
        (r#"{"p":"AP8=","p@odata.type":"Edm.Binary"}"#, Value::Binary(vec![0, 255])),
        (r#"{"p":"","p@odata.type":"Edm.Binary"}"#, Value::Binary(Vec::new())),
        ("\u{feff} {\n\"p\" : 1 }\r\n", Value::Int32(1)),
    ] {
        assert_eq!(one(body), expected, "{body}");
    }
    let Value::Double(nan) = one(r#"{"p":"NaN","p@odata.type":"Edm.Double"}"#) else { panic!("a double") };
    assert!(nan.is_nan());
}

#[test]
fn keys_and_what_is_left_out() {
    let entity = read(
        r#"{"odata.metadata":"x","odata.type":"a.t","odata.etag":"W/\"1\"","PartitionKey@odata.type":"Edm.String","PartitionKey":"p",
            "RowKey":"","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020","gone":null,"typed@odata.type":"Edm.Int64","typed":null}"#,
    )
    .expect("right");
    assert_eq!(entity.partition_key.map(|key| key.as_str().to_string()).as_deref(), Some("p"));
    assert_eq!(entity.row_key.map(|key| key.as_str().to_string()).as_deref(), Some(""));
    assert!(entity.properties.is_empty());
    assert_eq!(read(r#"{"PartitionKey":null}"#).expect("right").partition_key, None);
    assert_eq!(read(r#"{"Timestamp":null}"#).expect("right"), SentEntity::default());
    assert_eq!(read_table_name(br#"{"TableName":"People"}"#).as_deref(), Ok("People"));
    assert!(read_table_name(br#"{"Name":"People"}"#).is_err() && read_table_name(br#"{"TableName":5}"#).is_err());
}

#[test]
fn what_is_refused() {
    let deep = format!("{{\"p\":{}}}", "[".repeat(100_000));
    for body in [
        "",
        "{",
        "[]",
        "null",
        "5",
        "{\"p\":}",
        "{\"p\":1,}",
        "{\"p\":1} x",
        "{'p':1}",
        "{\"p\":01}",
        "{\"p\":\"\\ud800\"}",
        "{\"p\":[1]}",
        "{\"p\":{\"a\":1}}",
        &deep,
        "{\"p\":2147483648}",
        "{\"p\":9007199254740993}",
        "{\"p\":1e400}",
        "{\"p\":\"abc\",\"p@odata.type\":\"Edm.Int64\"}",
        "{\"p\":\"9223372036854775808\",\"p@odata.type\":\"Edm.Int64\"}",
        "{\"p\":1.5,\"p@odata.type\":\"Edm.Int64\"}",
        "{\"p\":1.5,\"p@odata.type\":\"Edm.Int32\"}",
        "{\"p\":1,\"p@odata.type\":\"Edm.String\"}",
        "{\"p\":true,\"p@odata.type\":\"Edm.Double\"}",
        "{\"p\":\"yes\",\"p@odata.type\":\"Edm.Boolean\"}",
        "{\"p\":\"soon\",\"p@odata.type\":\"Edm.DateTime\"}",
        "{\"p\":5,\"p@odata.type\":\"Edm.DateTime\"}",
        "{\"p\":\"123\",\"p@odata.type\":\"Edm.Guid\"}",
        "{\"p\":\"*\",\"p@odata.type\":\"Edm.Binary\"}",
        "{\"p\":\"A\",\"p@odata.type\":\"Edm.Binary\"}",
        "{\"p\":\"A\",\"p@odata.type\":5}",
        "{\"PartitionKey\":5}",
        "{\"PartitionKey\":\"1\",\"PartitionKey@odata.type\":\"Edm.Int32\"}",
    ] {
        refused(body, "InvalidInput");
    }
    refused(r#"{"p":"A","p@odata.type":"Edm.Float"}"#, "InvalidValueType");
    refused(r#"{"p":1,"p":2}"#, "DuplicatePropertiesSpecified");
    refused(r#"{"RowKey":"1","RowKey":"2"}"#, "DuplicatePropertiesSpecified");
    refused(r#"{"a-b":1}"#, "PropertyNameInvalid");
    refused(r#"{"PartitionKey":"a/b"}"#, "OutOfRangeInput");
    refused(r#"{"p":"1600-12-31T23:59:59Z","p@odata.type":"Edm.DateTime"}"#, "OutOfRangeInput");
    assert!(read_entity(b"{\"p\":\"\xff\"}").is_err());
}

fn entity() -> StoredEntity {
    let properties = [
        ("Text", ValueRef::String("a\"\n\u{e9}")),
        ("Raw", ValueRef::Binary(&[0, 255])),
        ("On", ValueRef::Boolean(true)),
        ("Small", ValueRef::Int32(-7)),
        ("Large", ValueRef::Int64(9_007_199_254_740_993)),
        ("Real", ValueRef::Double(3.0)),
        ("Odd", ValueRef::Double(f64::NEG_INFINITY)),
        ("When", ValueRef::DateTime(moment("2017-11-10T02:43:30Z"))),
        ("Who", ValueRef::Guid(1)),
    ];
    StoredEntity::new(moment("2026-01-02T03:04:05.0000120Z"), properties.into_iter())
}

#[test]
fn levels_out() {
    let writer = |level| Writer { level, endpoint: "http://h/dev/", account: "dev", select: None };
    let bare = r#""Text":"a\"\né","Raw":"AP8=","On":true,"Small":-7,"Large":"9007199254740993","Real":3.0,"Odd":"-Infinity","When":"2017-11-10T02:43:30Z","Who":"00000000-0000-0000-0000-000000000001""#;
    let typed = r#""Text":"a\"\né","Raw@odata.type":"Edm.Binary","Raw":"AP8=","On":true,"Small":-7,"Large@odata.type":"Edm.Int64","Large":"9007199254740993","Real":3.0,"Odd@odata.type":"Edm.Double","Odd":"-Infinity","When@odata.type":"Edm.DateTime","When":"2017-11-10T02:43:30Z","Who@odata.type":"Edm.Guid","Who":"00000000-0000-0000-0000-000000000001""#;
    let keys = r#""PartitionKey":"it's","RowKey":"r","#;
    let timestamp = r#""Timestamp":"2026-01-02T03:04:05.000012Z","#;
    let etag = r#""odata.etag":"W/\"datetime'2026-01-02T03%3A04%3A05.000012Z'\"","#;
    assert_eq!(writer(Level::No).entity("People", "it's", "r", &entity()), format!("{{{keys}{timestamp}{bare}}}"));
    assert_eq!(
        writer(Level::Minimal).entity("People", "it's", "r", &entity()),
        format!(r#"{{"odata.metadata":"http://h/dev/$metadata#People/@Element",{etag}{keys}{timestamp}{typed}}}"#)
    );
    let link = "People(PartitionKey='it''s',RowKey='r')";
    assert_eq!(
        writer(Level::Full).entity("People", "it's", "r", &entity()),
        format!(
            r#"{{"odata.metadata":"http://h/dev/$metadata#People/@Element","odata.type":"dev.People","odata.id":"http://h/dev/{link}",{etag}"odata.editLink":"{link}",{keys}"Timestamp@odata.type":"Edm.DateTime",{timestamp}{typed}}}"#
        )
    );
    assert_eq!(writer(Level::No).entities("People", std::iter::empty()), r#"{"value":[]}"#);
    assert_eq!(
        writer(Level::Minimal).tables(&["a".into(), "b".into()]),
        r#"{"odata.metadata":"http://h/dev/$metadata#Tables","value":[{"TableName":"a"},{"TableName":"b"}]}"#
    );
    assert_eq!(
        writer(Level::Full).table("People"),
        r#"{"odata.metadata":"http://h/dev/$metadata#Tables/@Element","odata.type":"dev.Tables","odata.id":"http://h/dev/Tables('People')","odata.editLink":"Tables('People')","TableName":"People"}"#
    );
}

#[test]
fn selected_out() {
    let select = Select {
        written: "Small,none,RowKey".into(),
        names: Some(vec!["Small".into(), "none".into(), "RowKey".into()]),
    };
    let writer = |level| Writer { level, endpoint: "http://h/dev/", account: "dev", select: Some(&select) };
    assert_eq!(writer(Level::No).entity("People", "p", "r", &entity()), r#"{"Small":-7,"none":null,"RowKey":"r"}"#);
    assert_eq!(
        writer(Level::Minimal).entity("People", "p", "r", &entity()),
        r#"{"odata.metadata":"http://h/dev/$metadata#People/@Element&$select=Small,none,RowKey","odata.etag":"W/\"datetime'2026-01-02T03%3A04%3A05.000012Z'\"","Small":-7,"none":null,"RowKey":"r"}"#
    );
}

/// Whatever is written at a level with annotations is read back bit for bit.
#[test]
fn values_round_trip() {
    let mut state = 5u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    };
    for _ in 0..5000 {
        let (a, b) = (draw(), draw());
        let text: String =
            (0..a % 12).filter_map(|n| char::from_u32((b.rotate_left(n as u32 * 7) % 0x11_0000) as u32)).collect();
        let bytes = b.to_be_bytes();
        let properties = [
            ("Text", ValueRef::String(&text)),
            ("Raw", ValueRef::Binary(&bytes[..(a % 9) as usize])),
            ("On", ValueRef::Boolean(a & 1 == 0)),
            ("Small", ValueRef::Int32(a as i32)),
            ("Large", ValueRef::Int64(b as i64)),
            ("Real", ValueRef::Double(if f64::from_bits(a).is_nan() { f64::NAN } else { f64::from_bits(a) })),
            (
                "When",
                ValueRef::DateTime(Timestamp::from_ticks(
                    partition::table::value::DATE_TIME_MIN.ticks()
                        + a % (Timestamp::MAX.ticks() - partition::table::value::DATE_TIME_MIN.ticks()),
                )),
            ),
            ("Who", ValueRef::Guid(u128::from(a) << 64 | u128::from(b))),
        ];
        let stored = StoredEntity::new(Timestamp::from_ticks(a % Timestamp::MAX.ticks()), properties.into_iter());
        for level in [Level::Minimal, Level::Full] {
            let writer = Writer { level, endpoint: "http://h/dev/", account: "dev", select: None };
            let written = writer.entity("People", "p", "r", &stored);
            let back = read(&written).expect(&written);
            let again = StoredEntity::new(stored.timestamp(), back.properties.iter());
            assert_eq!(again.encode(), stored.encode(), "{written}");
        }
        let tag = etag(stored.timestamp());
        assert_eq!(parse_etag(&tag), Some(stored.timestamp()), "{tag}");
    }
}

#[test]
fn etags() {
    let moment = moment("2017-11-10T02:43:35.8460923Z");
    assert_eq!(etag(moment), "W/\"datetime'2017-11-10T02%3A43%3A35.8460923Z'\"");
    assert_eq!(parse_etag("W/\"datetime'2017-11-10T02:43:35.8460923Z'\""), Some(moment));
    for other in [
        "W/\"1\"",
        "\"0x8D\"",
        "W/\"datetime''\"",
        "W/\"datetime'2017-11-10T02%3A43%3A35.84609230Z'\"",
        "W/\"",
        "W/\"\u{e9}\"",
    ] {
        assert_eq!(parse_etag(other), None, "{other}");
    }
}
