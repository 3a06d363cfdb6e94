// Definitions of others that tests need: CustomResourceDefinitions for charts/weir and for examples/, the schemas
// of SARIF and of compose files. No program is built of them.
module weir.dev/test/definitions

go 1.26.7

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/compose-spec/compose-go/v2 v2.16.2
	github.com/emissary-ingress/emissary/v3 v3.9.1
	github.com/envoyproxy/gateway v1.9.1
	github.com/kgateway-dev/kgateway/v2 v2.2.0
	github.com/kuadrant/kuadrant-operator v1.5.2
	github.com/owenrumney/go-sarif/v3 v3.3.1
	github.com/projectcontour/contour v1.33.8
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/traefik/traefik/v3 v3.7.13
	istio.io/api v1.31.1
	sigs.k8s.io/gateway-api v1.6.3
)
