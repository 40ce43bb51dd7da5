// Sends 50 requests at once over HTTP/2, and prints the different answers.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	pem, _ := os.ReadFile(os.Args[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	seen := sync.Map{}
	var all sync.WaitGroup
	for n := 0; n < 50; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			answer, err := client.Get(os.Args[1])
			if err != nil {
				seen.Store(err.Error(), true)
				return
			}
			body, _ := io.ReadAll(answer.Body)
			seen.Store(fmt.Sprint(answer.Proto, " ", answer.StatusCode, " ", string(body)), true)
		}()
	}
	all.Wait()
	seen.Range(func(key, _ any) bool { fmt.Println(key); return true })
}
