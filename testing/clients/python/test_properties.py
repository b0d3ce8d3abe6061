"""What is set for a whole service (logging, metrics, CORS, the default version) and told of it; and what browsers make of CORS."""

import http.client
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import BlobAnalyticsLogging, BlobServiceClient, CorsRule, Metrics, RetentionPolicy, StaticWebsite

from server import ACCOUNT, KEY

OFF = RetentionPolicy(enabled=False)
NOTHING = dict(analytics_logging=BlobAnalyticsLogging(), hour_metrics=Metrics(), minute_metrics=Metrics(), cors=[])


@pytest.fixture
def owner(start):
    """A service of this test's own: what is set here holds for every request."""
    server = start()
    with BlobServiceClient(server.endpoint, credential=KEY, retry_total=0) as service:
        service.server = server
        yield service


def days(policy):
    return (policy.enabled, policy.days)


def test_properties_come_back_as_set(owner):
    before = owner.get_service_properties()
    assert before["cors"] == [] and not before["hour_metrics"].enabled and not before["analytics_logging"].read
    owner.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(read=True, write=True, delete=False, retention_policy=RetentionPolicy(enabled=True, days=5)),
        hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=365)),
        minute_metrics=Metrics(enabled=True, include_apis=False, retention_policy=OFF),
        cors=[
            CorsRule(["https://a.example", "https://b.example"], ["GET", "PUT"], max_age_in_seconds=500,
                     allowed_headers=["x-ms-meta-a*", "content-type"], exposed_headers=["x-ms-meta-*"]),
            CorsRule(["*"], ["HEAD"]),
        ],
        target_version="2021-08-06",
    )
    seen = owner.get_service_properties()
    logging = seen["analytics_logging"]
    assert (logging.read, logging.write, logging.delete, days(logging.retention_policy)) == (True, True, False, (True, 5))
    hour, minute = seen["hour_metrics"], seen["minute_metrics"]
    assert (hour.enabled, hour.include_apis, days(hour.retention_policy)) == (True, True, (True, 365))
    assert (minute.enabled, minute.include_apis, days(minute.retention_policy)) == (True, False, (False, None))
    first, second = seen["cors"]
    assert first.allowed_origins == "https://a.example,https://b.example" and first.allowed_methods == "GET,PUT"
    assert first.allowed_headers == "x-ms-meta-a*,content-type" and first.exposed_headers == "x-ms-meta-*"
    assert (first.max_age_in_seconds, second.max_age_in_seconds) == (500, 0)
    assert (second.allowed_origins, second.allowed_methods) == ("*", "HEAD")
    assert seen["target_version"] == "2021-08-06"

    # What is not sent stays as it is.
    owner.set_service_properties(minute_metrics=Metrics())
    again = owner.get_service_properties()
    assert len(again["cors"]) == 2 and again["hour_metrics"].enabled and not again["minute_metrics"].enabled
    owner.set_service_properties(**NOTHING)
    assert owner.get_service_properties()["cors"] == []


def test_properties_outlive_the_process(owner):
    owner.set_service_properties(cors=[CorsRule(["*"], ["GET"])])
    owner.server.kill()
    owner.server.start()
    assert owner.get_service_properties()["cors"][0].allowed_methods == "GET"


@pytest.mark.azurite("does not make $web")
def test_deleted_blobs_and_the_website(owner, refused):
    owner.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
    owner.set_service_properties(static_website=StaticWebsite(enabled=True, index_document="index.html", error_document404_path="404.html"))
    seen = owner.get_service_properties()
    assert seen["delete_retention_policy"].enabled and seen["delete_retention_policy"].days == 7
    website = seen["static_website"]
    assert (website.enabled, website.index_document, website.error_document404_path) == (True, "index.html", "404.html")
    assert owner.get_container_client("$web").exists()
    for asked in (dict(delete_retention_policy=RetentionPolicy(enabled=True, days=366)),
                  dict(static_website=StaticWebsite(enabled=True, index_document="a", default_index_document_path="b"))):
        with refused(400, "InvalidXmlDocument"):
            owner.set_service_properties(**asked)
    owner.set_service_properties(static_website=StaticWebsite(enabled=False), delete_retention_policy=OFF)
    seen = owner.get_service_properties()
    assert not seen["static_website"].enabled and not seen["delete_retention_policy"].enabled


def test_properties_that_make_no_sense(owner, refused):
    rule = CorsRule(["https://a.example"], ["GET"])
    for asked in (dict(cors=[rule] * 6), dict(cors=[CorsRule(["https://a.example"], ["FETCH"])]), dict(cors=[CorsRule(["x" * 257], ["GET"])]),
                  dict(target_version="soon"), dict(hour_metrics=Metrics(enabled=True, retention_policy=RetentionPolicy(enabled=True, days=366)))):
        with refused(400):
            owner.set_service_properties(**asked)
    assert owner.get_service_properties()["cors"] == []


@pytest.mark.azurite("looks only at the start")
def test_the_default_version_is_what_old_requests_get(owner, container_name="box"):
    owner.create_container(container_name, public_access="container")
    owner.get_blob_client(container_name, "b").upload_blob(b"x")
    assert "x-ms-version" in raw(owner, "GET", f"/{container_name}/b").headers
    owner.set_service_properties(target_version="2020-04-08")
    assert raw(owner, "GET", f"/{container_name}/b").headers["x-ms-version"] == "2020-04-08"


def raw(service, method, path, **headers):
    """As a browser sends it."""
    url = urlsplit(service.url)
    connection = http.client.HTTPConnection(url.hostname, url.port)
    connection.request(method, url.path.rstrip("/") + path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


@pytest.mark.azurite("differs in what it exposes")
def test_cors(owner):
    box = owner.create_container("box", public_access="blob")
    box.upload_blob("b", b"x", metadata={"hello": "1", "other": "2"})
    asked = dict(Origin="https://a.example", Access_Control_Request_Method="GET")
    assert raw(owner, "OPTIONS", "/box/b", **asked).status == 403, "no rules yet"
    owner.set_service_properties(cors=[
        CorsRule(["https://a.example", "https://*.b.example"], ["GET", "PUT"], max_age_in_seconds=60, allowed_headers=["x-ms-*", "content-type"],
                 exposed_headers=["x-ms-meta-h*", "etag"]),
        CorsRule(["*"], ["HEAD"]),
    ])

    answer = raw(owner, "OPTIONS", "/box/not-there", **asked, Access_Control_Request_Headers="X-Ms-Version,content-type")
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET"
    assert answer.headers["Access-Control-Allow-Headers"].lower() == "x-ms-version,content-type"
    assert answer.headers["Access-Control-Max-Age"] == "60"
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert raw(owner, "OPTIONS", "/", **asked | dict(Origin="https://sub.b.example")).status == 200
    star = raw(owner, "OPTIONS", "/box/b", **asked | dict(Access_Control_Request_Method="HEAD", Origin="https://elsewhere.example"))
    assert (star.status, star.headers["Access-Control-Allow-Origin"]) == (200, "*") and "Access-Control-Allow-Credentials" not in star.headers
    for other in (dict(Origin="https://evil.example"), dict(Origin="https://A.example"), dict(Access_Control_Request_Method="DELETE"),
                  dict(Access_Control_Request_Headers="authorization")):
        assert raw(owner, "OPTIONS", "/box/b", **asked | other).status == 403, other
    assert raw(owner, "OPTIONS", "/box/b", Origin="https://a.example").status == 400
    assert raw(owner, "OPTIONS", "/box/b", Access_Control_Request_Method="GET").status == 400

    answer = raw(owner, "GET", "/box/b", Origin="https://a.example", x_ms_version="2021-08-06")
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"], answer.headers["Vary"]) == (200, "https://a.example", "Origin")
    exposed = answer.headers["Access-Control-Expose-Headers"].lower().split(",")
    assert {"x-ms-meta-hello", "etag"} <= set(exposed) and "x-ms-meta-other" not in exposed
    missing = raw(owner, "GET", "/box/missing", Origin="https://a.example", x_ms_version="2021-08-06")
    assert (missing.status, missing.headers["Access-Control-Allow-Origin"]) == (404, "https://a.example"), "a page may read the refusal"
    for headers in (dict(Origin="https://evil.example"), {}):
        answer = raw(owner, "GET", "/box/b", **headers)
        assert answer.status == 200 and "Access-Control-Allow-Origin" not in answer.headers and answer.headers["Vary"] == "Origin"
    owner.set_service_properties(cors=[])
    answer = raw(owner, "GET", "/box/b", Origin="https://a.example")
    assert "Access-Control-Allow-Origin" not in answer.headers and "Vary" not in answer.headers


def test_statistics_are_told_by_the_secondary(endpoint, refused):
    """Host style as at the service; in path style the client swaps the host alone, so the path has to name the secondary."""
    url = urlsplit(endpoint)
    path_style = f"{url.scheme}://{url.netloc}/{ACCOUNT}-secondary"
    named = dict(account_name=ACCOUNT, account_key=KEY)
    for secondary in (
        BlobServiceClient(f"{url.scheme}://{ACCOUNT}.blob.localhost:{url.port}", credential=named, retry_total=0,
                          secondary_hostname=f"{ACCOUNT}-secondary.blob.localhost:{url.port}"),
        BlobServiceClient(path_style, credential=named, retry_total=0, secondary_hostname=url.netloc),
    ):
        stats = secondary.get_service_stats()["geo_replication"]
        assert stats["status"] == "live" and stats["last_sync_time"] is not None
    with refused(400):
        BlobServiceClient(endpoint, credential=KEY, retry_total=0, secondary_hostname=url.netloc).get_service_stats()


def test_account_information(service, container):
    for client in (service, container, container.get_blob_client("not there")):
        seen = client.get_account_information()
        assert (seen["account_kind"], seen["sku_name"], seen["is_hns_enabled"]) == ("StorageV2", "Standard_LRS", False)
