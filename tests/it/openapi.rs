//! The OpenAPI document: served, complete, and correct for every route.

use serde_json::{Value, json};

use crate::support::{Auth, RawRequest, TestServer, openapi};

const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace"];

fn operations() -> impl Iterator<Item = (&'static String, &'static str, &'static Value)> {
    let paths = openapi()["paths"].as_object().expect("the document has paths");
    paths.iter().flat_map(|(path, item)| {
        METHODS.iter().filter_map(move |method| item.get(*method).map(|operation| (path, *method, operation)))
    })
}

#[test]
fn the_document_is_openapi_3_1_of_version_1_0_0() {
    let document = openapi();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], "1.0.0");
    assert!(document["info"]["title"].is_string());
    let known = [
        "openapi",
        "info",
        "jsonSchemaDialect",
        "servers",
        "paths",
        "webhooks",
        "components",
        "security",
        "tags",
        "externalDocs",
    ];
    for name in document.as_object().unwrap().keys() {
        assert!(known.contains(&name.as_str()) || name.starts_with("x-"), "{name} is no member of OpenAPI");
    }
}

#[test]
fn every_operation_has_an_id_of_its_own_a_summary_and_described_responses() {
    let mut ids = std::collections::BTreeSet::new();
    for (path, method, operation) in operations() {
        let id =
            operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operationId"));
        assert!(ids.insert(id), "{id} twice");
        assert!(operation["summary"].is_string(), "{method} {path} has no summary");
        let responses = operation["responses"].as_object().unwrap_or_else(|| panic!("{method} {path}"));
        assert!(!responses.is_empty());
        for (status, response) in responses {
            let response = resolve(response);
            assert!(response["description"].is_string(), "{method} {path} {status} has no description");
        }
    }
    assert!(!ids.is_empty());
}

/// A generated client would treat every answer as text if the document listed a text beside it. Texts that a client
/// requests with `Accept` are therefore documented in prose only.
#[test]
fn every_answer_has_one_media_type() {
    for (path, method, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let types = resolve(response)["content"].as_object().map_or(0, serde_json::Map::len);
            assert!(types <= 1, "{method} {path} {status} has {types}");
        }
    }
}

#[test]
fn every_parameter_of_a_path_is_declared() {
    for (path, method, operation) in operations() {
        let shared = openapi()["paths"][path]["parameters"].as_array().into_iter().flatten();
        let own = operation["parameters"].as_array().into_iter().flatten();
        let declared: Vec<_> = shared
            .chain(own)
            .map(resolve)
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            assert!(declared.contains(&name), "{method} {path} does not declare {name}");
        }
        assert_eq!(declared.len(), path.matches('{').count(), "{method} {path}: {declared:?}");
    }
}

#[test]
fn head_takes_what_get_takes_and_who_may_answer_412_takes_the_conditions() {
    let own = |operation: &Value| operation["parameters"].as_array().cloned().unwrap_or_default();
    for (path, method, operation) in operations() {
        if method == "head" {
            assert_eq!(own(operation), own(&openapi()["paths"][path]["get"]), "{path}");
        }
        // A batch has its conditions in its operations.
        if operation["responses"].get("412").is_some() && path != "/operations" {
            for name in ["IfMatch", "IfNoneMatch"] {
                let reference = serde_json::json!({"$ref": format!("#/components/parameters/{name}")});
                assert!(own(operation).contains(&reference), "{method} {path} does not take {name}");
            }
        }
    }
}

#[test]
fn an_answer_of_any_status_lists_the_headers_that_one_of_them_may_have() {
    let headers = |response: &str| {
        let headers = &openapi()["components"]["responses"][response]["headers"];
        headers.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>()
    };
    assert!(headers("OtherError").contains(&"Retry-After"), "429");
    assert!(headers("OtherError").contains(&"Allow"), "405");
    for stream in ["CollectionList", "Collection", "EventList"] {
        assert!(headers(stream).contains(&"X-Accel-Buffering"), "{stream}");
    }
    for name in ["ETag", "Retry-After"] {
        assert!(headers("HeadError").contains(&name), "{name}");
    }
}

#[tokio::test]
async fn what_is_answered_to_a_media_type_that_is_none_is_listed() {
    const TYPE: &str = "application/vnd.api+json; charset=utf-8";
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    for (path, method, operation) in operations().filter(|(path, ..)| !path.contains('{')) {
        if method == "get" {
            let asked = server.request("GET", path).header("Content-Type", TYPE);
            let is_listed = operation["responses"].get("415").is_some();
            assert_eq!(asked.send().await.status() == 415, is_listed, "{path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let mut broken = Vec::new();
    visit(openapi(), &mut |value| {
        if let Some(reference) = value["$ref"].as_str() {
            let pointer = reference.trim_start_matches('#');
            if openapi().pointer(pointer).is_none() {
                broken.push(reference.to_owned());
            }
        }
    });
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The examples in the document match its schemas.
#[test]
fn every_schema_compiles_and_fits_its_examples() {
    let root = openapi();
    let schemas = root["components"]["schemas"].as_object().expect("the document has schemas");
    for (name, schema) in schemas {
        let mut whole = root.clone();
        whole["$ref"] = Value::from(format!("#/components/schemas/{name}"));
        let validator =
            jsonschema::draft202012::new(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        let examples = schema["examples"].as_array().into_iter().flatten().chain(schema.get("example"));
        for example in examples {
            let faults: Vec<_> = validator.iter_errors(example).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{name}: {faults:#?}\n{example}");
        }
    }
}

#[tokio::test]
async fn what_the_document_refuses_of_an_operation_is_refused() {
    let mut whole = openapi().clone();
    whole["$ref"] = Value::from("#/components/schemas/OperationsDocument");
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let server = TestServer::start("small").await;
    let tag = server.read("posts").await.is(200).header("etag");
    let of = |key: &str| json!({"type": "document-collection", "id": key});
    for (operation, status) in [
        (json!({"op": "add", "data": of("a")}), 200),
        (json!({"op": "add", "data": of("b"), "ref": of("b")}), 400),
        (json!({"op": "add", "data": of("b"), "meta": {"ifMatch": "bare"}}), 400),
        (json!({"op": "add", "data": of("b"), "meta": {"ifMatch": ""}}), 400),
        (json!({"op": "add", "data": of("b"), "meta": "x"}), 400),
        (json!({"op": "update", "data": of("posts"), "meta": {"ifMatch": tag}}), 200),
    ] {
        let batch = json!({"atomic:operations": [operation]});
        assert_eq!(validator.is_valid(&batch), status == 200, "{operation}");
        server.operations(json!([operation])).await.is(status);
    }
}

#[tokio::test]
async fn every_route_of_the_document_exists() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    for (path, method, _) in operations() {
        let target: Vec<_> =
            path.split('/').map(|part| if part.starts_with('{') { "posts" } else { part }).collect();
        let answer = RawRequest::new("OPTIONS", &target.join("/")).send(server.address());
        assert_eq!(answer.status(), 204, "{path}");
        let allow = answer.is(204).header("allow").to_lowercase();
        assert!(allow.split(',').any(|found| found.trim() == method), "{method} {path}: {allow}");
    }
}

#[tokio::test]
async fn both_forms_say_the_same_and_name_the_address_that_was_asked() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).base_path("/settings/v1").start().await;
    let json: Value = serde_json::from_slice(server.get("/openapi.json").await.is(200).bytes()).unwrap();
    let yaml: Value = serde_yaml::from_slice(server.get("/openapi.yaml").await.is(200).bytes()).unwrap();
    assert_eq!(json, yaml);
    let address = format!("http://{}/settings/v1", server.address());
    assert_eq!(json["servers"][0]["url"].as_str().unwrap().trim_end_matches('/'), address);
    let mut expected = openapi().clone();
    expected["servers"] = json["servers"].clone();
    assert_eq!(json, expected, "the servers aside it is the document of the source");
}

#[tokio::test]
async fn a_host_header_is_no_way_to_inject_anything() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    for (field, status) in [("Host", 400), ("Host: localhost\r\nX-Forwarded-Host", 200)] {
        let text =
            format!("GET /openapi.yaml HTTP/1.1\r\n{field}: evil\"'<script>\r\nConnection: close\r\n\r\n");
        let answer = crate::support::raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) && !answer.contains("<script>"),
            "{answer}"
        );
    }
}

fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => openapi().pointer(reference.trim_start_matches('#')).expect("references resolve"),
        None => value,
    }
}

fn visit(value: &Value, each: &mut impl FnMut(&Value)) {
    each(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| visit(member, each)),
        Value::Array(items) => items.iter().for_each(|item| visit(item, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
