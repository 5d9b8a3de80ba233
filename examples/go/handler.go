// A handler in Go: an order without a price is refused. Run it: go run handler.go
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "9000"
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Price *float64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Price == nil {
			w.WriteHeader(http.StatusUnprocessableEntity) // a dead letter
			return
		}
		w.WriteHeader(http.StatusNoContent) // done
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
