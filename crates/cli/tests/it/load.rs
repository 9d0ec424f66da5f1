//! A short form of the load test that `just load` runs against `evenkeel up`.

#[path = "../../benches/load/driver.rs"]
mod driver;

use driver::Load;

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_are_served_without_an_error_and_it_ends_in_order_under_them() {
    let load = Load { connections: 200, watches: 500, writes_per_second: 100, seconds: 3 };
    let load = load.or_settings().unwrap_or_else(|error| panic!("{error}"));
    let report = driver::run(load).await.unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    assert_eq!(report.exit_code, Some(0));
    assert_eq!((report.connections, report.watches), (load.connections, load.watches));
    assert_eq!(report.events, report.writes * 10);
    // Each connection is one open file, and the process has few others.
    assert!(report.files_max < load.connections + 100, "{} files", report.files_max);
}
