package main

import (
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// One client for all requests: it keeps connections alive.
var client = &http.Client{Timeout: 250 * time.Millisecond, Transport: &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute}}

// Limit asks Weir before a request goes on. describe says what of it is counted.
func Limit(domain string, describe func(*http.Request) [][]map[string]string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(map[string]any{"domain": domain, "descriptors": describe(r)})
		ask, _ := http.NewRequest("POST", cmp.Or(os.Getenv("WEIR_URL"), "http://localhost:8080")+"/v1/check", strings.NewReader(string(body)))
		ask.Header.Set("Content-Type", "application/json")
		if token := os.Getenv("WEIR_TOKEN"); token != "" {
			ask.Header.Set("Authorization", "Bearer "+token)
		}
		if answer, err := client.Do(ask); err != nil {
			log.Printf("Weir does not answer: %v", err) // The request passes.
		} else {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			for name := range answer.Header {
				if strings.HasPrefix(name, "Ratelimit") || name == "Retry-After" && answer.StatusCode == 429 {
					w.Header().Set(name, answer.Header.Get(name))
				}
			}
			if answer.StatusCode == 429 {
				http.Error(w, "too many requests", 429)
				return
			} else if answer.StatusCode != 200 {
				log.Printf("Weir answers %s: %s", answer.Status, text)
			}
		}
		next.ServeHTTP(w, r)
	})
}
