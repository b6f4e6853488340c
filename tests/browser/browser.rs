//! A browser, driven as a person uses it.

use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::driver::{Complaints, DevTools, Driver};
use crate::support::{TestServer, eventually};

/// Whether pages may run scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Runs,
    Blocked,
}

/// The viewport and colour scheme in which a page is viewed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

/// The looks in which every page is viewed.
pub(crate) const LOOKS: [Look; 4] = [
    Look { name: "wide", width: 1280, is_dark: false },
    Look { name: "wide-dark", width: 1280, is_dark: true },
    Look { name: "narrow", width: 360, is_dark: false },
    Look { name: "narrow-dark", width: 360, is_dark: true },
];

/// A window of its own browser.
pub(crate) struct Browser {
    client: Client,
    /// The base URL of the pages, without a trailing `/`.
    base: String,
    _driver: Driver,
}

impl Browser {
    /// Opens a browser; `None` where none is installed.
    pub(crate) async fn open(server: &TestServer, script: Script) -> Option<Self> {
        let driver = Driver::start()?;
        let javascript = if script == Script::Runs { 1 } else { 2 };
        let capabilities = json!({
            "goog:chromeOptions": {
                "binary": "/usr/bin/chromium",
                "args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                         "--disable-extensions", "--disable-background-networking", "--window-size=1280,900", "--lang=en-GB"],
                "prefs": {"profile.managed_default_content_settings.javascript": javascript},
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let Value::Object(capabilities) = capabilities else { unreachable!("it is written above") };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let address = format!("http://127.0.0.1:{}", driver.port);
        let connected = builder.capabilities(capabilities).connect(&address).await;
        let client = connected.expect("the browser starts");
        Some(Self { client, base: format!("http://{}/ui", server.address()), _driver: driver })
    }

    pub(crate) async fn goto(&self, path: &str) {
        self.client.goto(&format!("{}{path}", self.base)).await.expect("the page is shown");
    }

    /// Switches to another service.
    pub(crate) fn turn_to(&mut self, server: &TestServer) {
        self.base = format!("http://{}/ui", server.address());
    }

    /// Returns the path of the current page, below `/ui`.
    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap().to_string();
        url.strip_prefix(&self.base).unwrap_or(&url).to_owned()
    }

    pub(crate) async fn back(&self) {
        self.client.back().await.expect("there is a page before");
    }

    pub(crate) async fn reload(&self) {
        self.client.refresh().await.expect("the page is shown again");
    }

    /// Waits for an element and returns the first match.
    pub(crate) async fn find(&self, css: &str) -> Element {
        eventually(&format!("{css} is on the page"), async || {
            let found = self.client.find_all(Locator::Css(css)).await.ok()?;
            found.into_iter().next()
        })
        .await
    }

    pub(crate) async fn count(&self, css: &str) -> usize {
        self.client.find_all(Locator::Css(css)).await.unwrap().len()
    }

    pub(crate) async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Clicks the link, button or summary with this text.
    pub(crate) async fn press(&self, text: &str) {
        let path = format!(
            "//a[normalize-space()='{text}'] | //button[normalize-space()='{text}'] | //summary[normalize-space()='{text}']"
        );
        let found = eventually(&format!("{text:?} can be pressed"), async || {
            self.client.find(Locator::XPath(&path)).await.ok()
        })
        .await;
        found.click().await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Replaces the text of a field.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.unwrap_or_else(|error| panic!("{css}: {error}"));
        field.send_keys(text).await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Selects an option.
    pub(crate) async fn choose(&self, css: &str, value: &str) {
        self.click(&format!("{css} option[value='{value}']")).await;
    }

    /// Returns the value of a field.
    pub(crate) async fn value(&self, css: &str) -> String {
        self.find(css).await.prop("value").await.unwrap().unwrap_or_default()
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        self.find(css).await.text().await.unwrap()
    }

    /// Waits until the page shows a text.
    pub(crate) async fn shows(&self, text: &str) {
        eventually(&format!("the page shows {text:?}"), async || {
            let body = self.client.find(Locator::Css("body")).await.ok()?;
            body.text().await.ok()?.contains(text).then_some(())
        })
        .await;
    }

    /// Runs a function body in the page and returns its result.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Like [`run`](Self::run), for a script that calls its last argument when it is done.
    pub(crate) async fn wait_for(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute_async(script, arguments).await.expect("the script ends")
    }

    /// Types into the focused element.
    pub(crate) async fn keys(&self, keys: &str) {
        let focused = self.client.active_element().await.expect("something has the focus");
        focused.send_keys(keys).await.expect("it takes keys");
    }

    /// Shows a page of another site.
    pub(crate) async fn blank(&self, html: &str) {
        self.client.goto(&format!("data:text/html,{html}")).await.expect("the page is shown");
    }

    /// Changes how pages are viewed from now on.
    pub(crate) async fn look(&self, look: Look) {
        let scheme = if look.is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools(DevTools("Emulation.setEmulatedMedia", json!({"features": features}))).await;
        let size = json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools(DevTools("Emulation.setDeviceMetricsOverride", size)).await;
    }

    /// Takes a screenshot as PNG: of the window, or of the whole page.
    pub(crate) async fn picture(&self, is_whole: bool) -> Vec<u8> {
        use base64ct::Encoding as _;
        let asked = json!({"format": "png", "captureBeyondViewport": is_whole});
        let answer = self.devtools(DevTools("Page.captureScreenshot", asked)).await;
        base64ct::Base64::decode_vec(answer["data"].as_str().unwrap()).unwrap()
    }

    async fn devtools(&self, command: DevTools) -> Value {
        self.client.issue_cmd(command).await.expect("the browser does it")
    }

    /// Returns what the browser complained about: failed scripts, and violations of the content security policy.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let entries = self.client.issue_cmd(Complaints).await.expect("the browser tells");
        let serious = entries.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        serious.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Asserts that nothing failed in the pages shown so far.
    #[track_caller]
    pub(crate) fn assert_none(complaints: &[String]) {
        let serious: Vec<_> =
            complaints.iter().filter(|it| !it.contains("the server responded with a status of")).collect();
        assert!(serious.is_empty(), "the browser complained: {serious:#?}");
    }
}
