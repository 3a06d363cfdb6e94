// The CustomResourceDefinitions of the Prometheus operator that tests of charts/weir need. No program is built of it.
module weir.dev/test/prometheus-operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
