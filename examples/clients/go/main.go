package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	visit := func(r *http.Request) Descriptors { return Descriptors{{{"remote_address": address(r)}}} }
	login := func(r *http.Request) Descriptors {
		var body struct{ User any }
		json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4<<20)).Decode(&body)
		return Descriptors{{{"login_name": body.User}}, {{"page": "login"}, {"remote_address": address(r)}}}
	}
	http.Handle("GET /{$}", Limit("shop", visit, Allow, says("hello")))
	// While Weir is unavailable, no client can try passwords.
	http.Handle("POST /login", Limit("login-throttling", login, Deny, says("welcome")))
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listens on %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, nil))
}

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, text) })
}

func address(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
