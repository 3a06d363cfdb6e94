package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// OnError says what happens to a request if Weir cannot decide.
type OnError bool

const (
	Allow OnError = true
	Deny  OnError = false
)

// Descriptors are the descriptors to count.
type Descriptors = [][]map[string]any

// One client for all requests: it keeps connections alive.
var client = &http.Client{Timeout: 250 * time.Millisecond, Transport: &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute}}

// Limit asks Weir before next handles a request.
func Limit(domain string, describe func(*http.Request) Descriptors, onError OnError, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, headers := check(domain, describe(r))
		for name := range headers {
			if strings.HasPrefix(name, "Ratelimit") || name == "Retry-After" && status == 429 {
				w.Header().Set(name, headers.Get(name))
			}
		}
		switch {
		// The content of a request can cause 400 and 413, so the request is denied regardless of onError.
		case status == 429 || status == 400 || status == 413:
			http.Error(w, "too many requests", 429)
		case status != 200 && onError == Deny:
			http.Error(w, "try again later", 503)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// check returns the status and the headers of Weir's answer. The status is 0 without an answer.
func check(domain string, descriptors Descriptors) (int, http.Header) {
	for _, entries := range descriptors {
		for _, entry := range entries {
			for key, value := range entry {
				entry[key] = text(value)
			}
		}
	}
	body, _ := json.Marshal(map[string]any{"domain": domain, "descriptors": descriptors})
	ask, _ := http.NewRequest("POST", cmp.Or(os.Getenv("WEIR_URL"), "http://localhost:8080")+"/v1/check", bytes.NewReader(body))
	ask.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("WEIR_TOKEN"); token != "" {
		ask.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(ask)
	if err != nil {
		log.Printf("Weir does not answer: %v", err)
		return 0, nil
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 && answer.StatusCode != 429 {
		log.Printf("Weir answers %s: %s", answer.Status, text)
	}
	return answer.StatusCode, answer.Header
}

// text converts a value to a string, the only type that Weir accepts. A client cannot pass by sending another type.
func text(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}
