// What pages can do beyond what they do without this: times in the reader's zone, copying, searching while
// one types, and following what happens. Nothing that is being typed is ever touched.
"use strict";
(() => {
  const body = document.body;

  // Times: the exact one in UTC stays at hand.
  const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  function times(root) {
    for (const time of root.querySelectorAll("time[datetime*=T]:not([title])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.title = time.dateTime.replace("T", " ").replace("Z", " UTC");
      time.textContent = zone.format(at);
    }
  }

  function copies(root) {
    if (!navigator.clipboard) return;
    for (const text of root.querySelectorAll("[data-copy]")) {
      if (text.nextElementSibling?.className === "copy") continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy " + (text.dataset.copy || text.textContent));
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(text.matches("input") ? text.value : text.textContent);
          button.textContent = "Copied";
        } catch { button.textContent = "Not allowed"; }
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      text.after(button);
    }
  }

  function dress(root) { times(root); copies(root); rows(root); }

  const numbered = (id, number) => id.replace(/-\d+$/, "") + "-" + number;

  // Rows of lists and statuses: one more at a click.
  function rows(root) {
    for (const list of root.querySelectorAll("[data-rows]:not([data-dressed])")) {
      list.dataset.dressed = "";
      const more = document.createElement("button");
      more.type = "button";
      more.textContent = list.dataset.rows;
      more.addEventListener("click", () => {
        const last = list.lastElementChild, row = last.cloneNode(true), number = list.children.length;
        for (const button of row.querySelectorAll(".copy")) button.remove();
        for (const field of row.querySelectorAll("input")) {
          field.value = "";
          field.removeAttribute("data-copy");
          field.removeAttribute("aria-invalid");
          field.removeAttribute("aria-describedby");
          field.name = field.name.replace(/\d+$/, number);
          field.id = numbered(field.id, number);
        }
        for (const label of row.querySelectorAll("label")) label.htmlFor = numbered(label.htmlFor, number);
        for (const error of row.querySelectorAll(".error")) error.remove();
        list.append(row);
        row.querySelector("input").focus();
      });
      list.after(more);
    }
  }

  const news = document.getElementById("news");
  function announce(text, link) {
    news.textContent = text + " ";
    if (!link) return;
    const a = document.createElement("a");
    a.href = link;
    a.textContent = "Show";
    news.append(a);
  }

  // Regions that follow what happens are taken from the same page asked for again.
  async function page(address) {
    const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.redirected && answer.url.includes("/ui/sign-in")) throw new Error("signed out");
    return { status: answer.status, html: new DOMParser().parseFromString(await answer.text(), "text/html") };
  }
  function take(html, only) {
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = html.getElementById(region.id);
      if (!next || (only && region.id !== only)) continue;
      times(next);
      if (next.innerHTML === bare(region)) continue;
      // What has the focus, or is picked or opened, stays as it is.
      if (region.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
      const known = new Set([...region.querySelectorAll("[data-event]")].map((it) => it.dataset.event));
      const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const open = [...region.querySelectorAll("details")].map((it) => it.open);
      const picked = [...region.querySelectorAll("input:checked")].map((it) => it.name + it.value);
      region.replaceChildren(...next.childNodes);
      [...region.querySelectorAll("details")].forEach((it, at) => { it.open = open[at] || false; });
      for (const input of picked.length ? region.querySelectorAll("input") : []) input.checked = picked.includes(input.name + input.value);
      dress(region);
      if (focused) [...region.querySelectorAll("a")].find((it) => it.getAttribute("href") === focused)?.focus();
      const fresh = [...region.querySelectorAll("[data-event]")].filter((it) => known.size && !known.has(it.dataset.event));
      fresh.forEach((it) => it.classList.add("fresh"));
      if (region.dataset.live === "announce" && fresh.length) announce(fresh.length === 1 ? "1 new event." : fresh.length + " new events.");
    }
  }
  function bare(region) {
    const copy = region.cloneNode(true);
    for (const button of copy.querySelectorAll(".copy")) button.remove();
    return copy.innerHTML;
  }

  // The search: as one types, the newest answer wins.
  const search = document.querySelector("form[data-search]");
  if (search) {
    let wait, turn = 0;
    const look = () => {
      clearTimeout(wait);
      wait = setTimeout(async () => {
        const mine = ++turn;
        const asked = new URLSearchParams([...new FormData(search)].filter(([, value]) => value));
        const address = search.action + (asked.size ? "?" + asked : "");
        try {
          const { html } = await page(address);
          if (mine !== turn) return;
          history.replaceState(null, "", address);
          const region = document.getElementById(search.dataset.search), next = html.getElementById(search.dataset.search);
          if (next) { region.replaceChildren(...next.childNodes); dress(region); }
          announce(region.querySelector(".summary")?.textContent || "");
          setTimeout(() => { if (mine === turn) news.textContent = ""; }, 100);
        } catch { /* The button does the same. */ }
      }, 150);
    };
    for (const event of ["input", "change"]) search.addEventListener(event, look);
  }

  // Following: a stream that is read as long as the page is visible, since a browser has few connections.
  let last = body.dataset.token, reading = null, wait = 1000;
  let due = null;
  const form = document.querySelector("form[data-tag]");
  let asked = 0, shown = 0;
  async function refresh() {
    due = null;
    const mine = ++asked, address = location.href;
    try {
      const { html, status } = await page(address);
      // The search may have gone on to another list, and a newer answer may have come first.
      if (location.href !== address) return changed();
      if (mine < shown) return;
      shown = mine;
      if (form) {
        const now = html.querySelector("form[data-tag]");
        if (status === 404) announce("Somebody has deleted this collection.");
        else if (now && now.dataset.tag !== form.dataset.tag) announce("Somebody has changed this collection. What you typed stays; saving merges both.", location.href);
      }
      take(html);
    } catch { /* The stream tells again, or is begun again. */ }
  }
  function changed() { if (!due) due = setTimeout(refresh, 120); }
  async function follow() {
    const mine = reading = new AbortController();
    try {
      const answer = await fetch(body.dataset.stream, { headers: { Accept: "text/event-stream", "Last-Event-ID": last }, signal: mine.signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) return;
      if (!answer.ok) throw new Error(answer.status);
      wait = 1000;
      body.dataset.following = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          const line = (name) => message.split("\n").find((it) => it.startsWith(name + ":"))?.slice(name.length + 1).trim();
          const id = line("id"), event = line("event");
          if (id) last = id;
          if (event === "collection" || event === "removed" || event === "reset") changed();
        }
      }
    } catch { /* Begun again below. */ }
    delete body.dataset.following;
    if (reading !== mine) return;
    setTimeout(() => { if (reading === mine && !document.hidden) follow(); }, wait);
    wait = Math.min(wait * 2, 30000);
  }
  function stop() { const old = reading; reading = null; old?.abort(); }
  if (body.dataset.stream) {
    document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else if (!reading) follow(); });
    addEventListener("pagehide", stop);
    addEventListener("pageshow", (event) => { if (event.persisted && !reading) follow(); });
    if (!document.hidden) follow();
  }

  // What could not be shown yet is asked for until it can be.
  const again = document.querySelector("[data-again]");
  function later() { setTimeout(ask, again.dataset.again * 1000); }
  async function ask() {
    try {
      const { status } = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (status === 503) later(); else location.reload();
    } catch { later(); }
  }
  if (again) later();

  // Errors: the first field that is wrong or in question has the focus; else the summary of what is wrong.
  (document.querySelector("[autofocus]") || document.querySelector(".errors"))?.focus();
  for (const details of document.querySelectorAll("details.when")) {
    details.addEventListener("keydown", (event) => { if (event.key === "Escape") { details.open = false; details.querySelector("summary").focus(); } });
  }
  dress(document);
})();
