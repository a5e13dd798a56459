// SPDX-License-Identifier: Apache-2.0
//! Names and values as a scraper sees them.

use super::*;
use crate::readiness::Readiness;

fn lines(metrics: &Metrics, exposition: Exposition) -> Vec<String> {
    metrics.scrape(exposition).unwrap().lines().map(str::to_owned).collect()
}

#[track_caller]
fn has(metrics: &Metrics, line: &str) {
    let text = metrics.scrape(Exposition::Prometheus).unwrap();
    assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
}

#[test]
fn upstreams_metrics_have_upstreams_names() {
    let metrics = Metrics::default();
    metrics.installed(InstallResult::Success);
    metrics.installed(InstallResult::CopyBinariesFailure);
    metrics.repaired(RepairPolicy::Label, RepairResult::Skip, Duration::ZERO);
    metrics.repaired(RepairPolicy::Delete, RepairResult::Success, Duration::from_millis(20));
    for line in [
        "# TYPE istio_cni_installs_total counter",
        "istio_cni_installs_total{result=\"SUCCESS\"} 1",
        "istio_cni_installs_total{result=\"COPY_BINARIES_FAILURE\"} 1",
        "istio_cni_installs_total{result=\"CREATE_CNI_CONFIG_FAILURE\"} 0",
        "istio_cni_installs_total{result=\"CREATE_KUBECONFIG_FAILURE\"} 0",
        "istio_cni_install_ready 0",
        "istio_cni_repair_pods_repaired_total{type=\"label\",result=\"skip\"} 1",
        "istio_cni_repair_pods_repaired_total{type=\"delete\",result=\"success\"} 1",
        "istio_cni_repair_pods_repaired_total{type=\"repair\",result=\"fail\"} 0",
        "millrace_repair_seconds_bucket{le=\"0.025\",type=\"delete\"} 1",
        "millrace_repair_seconds_count{type=\"label\"} 0",
    ] {
        has(&metrics, line);
    }
}

#[test]
fn readiness_is_told_as_a_whole_and_in_parts() {
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    Part::ALL.iter().for_each(|part| readiness.set_ready(*part));
    metrics.readiness(&readiness.missing());
    has(&metrics, "istio_cni_install_ready 1");
    has(&metrics, "millrace_part_right{part=\"conflist\"} 1");
    readiness.set_unready(Part::Conflist, "gone");
    metrics.readiness(&readiness.missing());
    has(&metrics, "istio_cni_install_ready 0");
    has(&metrics, "millrace_part_right{part=\"conflist\"} 0");
    has(&metrics, "millrace_part_right{part=\"binaries\"} 1");
}

#[test]
fn both_texts_have_the_same_samples_and_no_name_is_doubled() {
    let metrics = Metrics::default();
    metrics.setting_rejected(SettingKey("CHAINED_CNI_PLUGIN"));
    metrics.token_expires(Some(1_795_000_000));
    let samples = |exposition| {
        let mut samples = lines(&metrics, exposition);
        // `process_*` differs between two scrapes.
        samples.retain(|line| !line.starts_with('#') && !line.starts_with("process_"));
        samples.sort();
        samples
    };
    let plain = samples(Exposition::Prometheus);
    assert_eq!(plain, samples(Exposition::OpenMetrics));
    assert!(plain.len() > 100, "{}", plain.len());
    assert!(plain.iter().all(|line| !line.contains("_total_total")), "{plain:?}");
    assert!(
        plain.contains(&"millrace_kubeconfig_token_expiry_timestamp_seconds 1795000000.0".to_owned()),
        "{plain:#?}"
    );
    assert_eq!(lines(&metrics, Exposition::OpenMetrics).last().unwrap(), "# EOF");
}

#[test]
fn every_sample_is_announced_with_its_help_and_type() {
    let text = lines(&Metrics::default(), Exposition::Prometheus);
    let announced = |word: &str| -> Vec<String> {
        let of = |line: &String| Some(line.strip_prefix(word)?.split(' ').next()?.to_owned());
        text.iter().filter_map(of).collect()
    };
    let types = announced("# TYPE ");
    assert_eq!(types, announced("# HELP "));
    for line in text.iter().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let parts = ["", "_bucket", "_sum", "_count"];
        assert!(
            parts
                .iter()
                .any(|part| name.strip_suffix(part).is_some_and(|base| types.iter().any(|t| t == base))),
            "{line}"
        );
    }
}

#[test]
fn a_scraper_gets_the_text_that_it_accepts() {
    let modern = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    assert_eq!(Exposition::for_accept(modern), Exposition::OpenMetrics);
    assert_eq!(Exposition::for_accept("*/*"), Exposition::Prometheus);
    assert_eq!(Exposition::for_accept(""), Exposition::Prometheus);
}
