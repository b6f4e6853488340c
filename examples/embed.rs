//! Embeds the service in another program, on a free port and with custom limits, and stops it when the program is
//! done.
//!
//! ```text
//! cargo run --example embed
//! ```

#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use collectory::config::Limits;
use collectory::{AllowAll, Service};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repository = tempfile::tempdir()?;
    let mut limits = Limits::DEFAULT;
    limits.requests.body_bytes_max = 128 * 1024;
    limits.shutdown_grace_ms = 1_000;
    let service = Service::builder(repository.path())
        .listen(([127, 0, 0, 1], 0).into())
        .limits(limits)
        .authorizer(AllowAll)
        .start()
        .await?;

    let collections = format!("http://{}/collections", service.address());
    let posts = serde_json::json!({"data": {
        "type": "document-collection", "id": "posts", "attributes": {"name": "Posts", "directory": "content/posts"}
    }});
    let http = reqwest::Client::new();
    // The service listens before it has read the repository; until then it answers 503.
    service.ready().await;
    let created = http.post(&collections).json(&posts).send().await?;
    println!("{} {}", created.status(), created.text().await?);

    service.shutdown().await?;
    Ok(())
}
