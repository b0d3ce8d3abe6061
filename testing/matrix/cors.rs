//! CORS through the front end: rules of each service are its own, hold at once, and no answer is refused because of them.

use contract::Service;
use testing::{Answer, Request, World};

async fn set(world: &World, service: Service, rules: &str) {
    let body = format!("<StorageServiceProperties><Cors>{rules}</Cors></StorageServiceProperties>");
    let answer = world.send(&Request::new("PUT ?restype=service&comp=properties").of(service).body(body)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn rule(origins: &str, methods: &str) -> String {
    format!(
        "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins><AllowedMethods>{methods}</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders>\
         <ExposedHeaders>x-ms-request-id,ETag</ExposedHeaders><MaxAgeInSeconds>7</MaxAgeInSeconds></CorsRule>"
    )
}

fn preflight(service: Service, origin: &str) -> Request {
    let request = Request::new("OPTIONS any/thing").of(service).unsigned().header("Origin", origin);
    request
        .header("Access-Control-Request-Method", "GET")
        .header("Access-Control-Request-Headers", "x-ms-date,x-ms-version")
}

fn shown(answer: &Answer) -> [Option<&str>; 4] {
    ["access-control-allow-origin", "access-control-expose-headers", "access-control-allow-credentials", "vary"]
        .map(|name| answer.header(name))
}

#[tokio::test]
async fn preflights() {
    let world = World::new().await;
    for service in Service::ALL {
        let refused = world.send(&preflight(service, "http://page")).await;
        assert_eq!((refused.status, refused.code()), (403, "CorsPreflightFailure"), "{service:?}");
        set(&world, service, &rule("http://page", "GET")).await;
        let answer = world.send(&preflight(service, "http://page")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        for (name, value) in [
            ("access-control-allow-origin", "http://page"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "x-ms-date,x-ms-version"),
            ("access-control-max-age", "7"),
            ("access-control-allow-credentials", "true"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{service:?}");
        }
        assert_eq!(world.send(&preflight(service, "http://other")).await.status, 403);
        let bare = Request::new("OPTIONS any/thing").of(service).unsigned();
        assert_eq!(world.send(&bare).await.code(), "InvalidHeaderValue");
        // Rules are removed as they are set: at once.
        set(&world, service, "").await;
        assert_eq!(world.send(&preflight(service, "http://page")).await.status, 403);
    }
}

#[tokio::test]
async fn answers_to_pages() {
    let world = World::new().await;
    assert_eq!(world.send(&Request::new("PUT box?restype=container")).await.status, 201);
    let list = |origin: &str| Request::new("GET box?restype=container").header("Origin", origin);
    assert_eq!(shown(&world.send(&list("http://page")).await), [None; 4]);

    set(&world, Service::Blob, &rule("http://page", "GET")).await;
    let mine = world.send(&list("http://page")).await;
    assert_eq!(shown(&mine), [Some("http://page"), Some("ETag,x-ms-request-id"), Some("true"), Some("Origin")]);
    assert_eq!(shown(&world.send(&list("http://other")).await), [None, None, None, Some("Origin")]);
    // A page learns what went wrong, too: missing, and not signed.
    let missing = world.send(&Request::new("GET none?restype=container").header("Origin", "http://page")).await;
    assert_eq!((missing.status, shown(&missing)[0]), (404, Some("http://page")));
    let unsigned = world.send(&list("http://page").unsigned()).await;
    assert_eq!((unsigned.status, shown(&unsigned)[0]), (401, Some("http://page")));

    set(&world, Service::Blob, &rule("*", "GET")).await;
    let all = world.send(&list("http://page")).await;
    assert_eq!(shown(&all), [Some("*"), Some("ETag,x-ms-request-id"), None, None]);
    let put = world.send(&Request::new("PUT other-box?restype=container").header("Origin", "http://page")).await;
    assert_eq!((put.status, shown(&put)), (201, [None; 4]));
}

/// Without `x-ms-version` the account's default holds.
#[tokio::test]
async fn default_service_version() {
    let world = World::new().await;
    let body = "<StorageServiceProperties><DefaultServiceVersion>2020-10-02</DefaultServiceVersion></StorageServiceProperties>";
    let set = Request::new("PUT ?restype=service&comp=properties").body(body);
    let anonymous = b"GET /devstoreaccount1/box/b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(world.send_raw(anonymous).await.status, 404);
    assert_eq!(world.send(&set).await.status, 202);
    let answer = world.send_raw(anonymous).await;
    assert_eq!((answer.status, answer.header("x-ms-version")), (401, Some("2020-10-02")));
}
