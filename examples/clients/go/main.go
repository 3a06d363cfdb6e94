package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	address := func(r *http.Request) [][]map[string]string {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return [][]map[string]string{{{"remote_address": host}}}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listens on %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, Limit("shop", address, hello)))
}
