//! A service that is open on purpose: every caller may do everything.
//!
//! ```text
//! cargo run --example allow_all
//! curl http://127.0.0.1:8080/collections
//! ```

#![expect(clippy::print_stderr, reason = "an example talks to whoever runs it")]

use collectory::{AllowAll, Service};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::builder("./settings").authorizer(AllowAll).start().await?;
    eprintln!("open to everybody at http://{}/collections", service.address());
    tokio::signal::ctrl_c().await?;
    service.shutdown().await?;
    Ok(())
}
