// The CustomResourceDefinitions of the Prometheus operator and of cert-manager that tests of charts/weir need, and the
// JSON Schema of SARIF. No program is built of them.
module weir.dev/test/definitions

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/owenrumney/go-sarif/v3 v3.3.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
