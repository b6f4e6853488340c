//! Standard process metrics with Prometheus' names
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::telemetry::metrics::Scrape;

/// Adds the process metrics, as far as the system provides them.
pub fn show(page: &mut Scrape<'_>) {
    if let Some(stat) = Stat::read() {
        page.counters("process_cpu_seconds", "Time of processors that the process has used.", |series| {
            series.counter(&[], stat.cpu_seconds);
        });
        page.gauge("process_threads", "Threads of the process.", stat.threads);
        page.gauge("process_virtual_memory_bytes", "Addresses that the process has.", stat.virtual_bytes);
        page.gauge("process_resident_memory_bytes", "Memory that the process has.", stat.resident_bytes);
        let started = stat.started_at();
        page.gauge("process_start_time_seconds", "When the process began, since 1970.", started);
    }
    let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as f64).ok();
    page.gauge("process_open_fds", "Files and sockets that the process has open.", open);
    let most = getrlimit(Resource::Nofile).current.map(|most| most as f64);
    page.gauge("process_max_fds", "Files and sockets that it may have open.", most);
}

/// The contents of `/proc/self/stat` (proc(5)).
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    /// Seconds since boot.
    started: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The program's name may contain any character. The fields after it begin with the third.
    fn of(text: &str) -> Option<Self> {
        let fields: Vec<f64> = text[text.rfind(')')? + 1..]
            .split_whitespace()
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = clock_ticks_per_second() as f64;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            started: field(22)? / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as f64,
        })
    }

    /// Returns the start time in seconds since 1970. `/proc/stat` has the boot time too, but not for a process that
    /// sees only processes (`ProcSubset=pid`).
    fn started_at(&self) -> f64 {
        let seconds = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
        };
        seconds(ClockId::Realtime) - seconds(ClockId::Boottime) + self.started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_may_hold_anything() {
        let rest = "S 1 1 1 0 -1 4194560 5 0 0 0 200 100 0 0 20 0 7 0 500 4096 3 0";
        let stat = Stat::of(&format!("42 (a ) b) {rest}")).unwrap();
        let ticks = clock_ticks_per_second() as f64;
        assert!((stat.cpu_seconds - 300.0 / ticks).abs() < 1e-9);
        assert!((stat.threads - 7.0).abs() < 1e-9 && (stat.virtual_bytes - 4096.0).abs() < 1e-9);
        assert!((stat.resident_bytes - 3.0 * page_size() as f64).abs() < 1e-9);
    }
    #[test]
    fn this_process_began_a_while_ago() {
        let began = Stat::read().unwrap().started_at();
        let now = clock_gettime(ClockId::Realtime).tv_sec as f64;
        assert!((-1.0..86_400.0).contains(&(now - began)), "{began} {now}");
    }
}
