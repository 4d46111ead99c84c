// A program in another language that takes part in the exchange of reports on Kafka:
//
//	reports BOOTSTRAP TOPIC [SCHEME BASE64]
//
// prints each report on the topic as a line of JSON, its own included, and publishes
// each line of JSON that it reads, signed when a key is given.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	log.SetFlags(0)
	bootstrap, topic := os.Args[1], os.Args[2]
	scheme, key := "", []byte(nil)
	if len(os.Args) > 3 {
		scheme = os.Args[3]
		var err error
		if key, err = base64.StdEncoding.DecodeString(os.Args[4]); err != nil {
			log.Fatal(err)
		}
	}
	go hear(bootstrap, topic)
	speak(bootstrap, topic, scheme, key)
}

func hear(bootstrap, topic string) {
	messages := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, MaxWait: 100 * time.Millisecond,
	})
	if err := messages.SetOffset(kafka.LastOffset); err != nil {
		log.Fatal(err)
	}
	for {
		message, err := messages.ReadMessage(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		heard, err := decode(message.Value)
		if err != nil {
			continue // dropped, as the page says
		}
		line, err := json.Marshal(heard)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(line))
	}
}

func speak(bootstrap, topic, scheme string, key []byte) {
	out := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Balancer: &kafka.Hash{},
		BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireOne,
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var said report
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			log.Fatal(err)
		}
		payload := seal(said.encode(), scheme, key)
		message := kafka.Message{Key: []byte("8 bytes!"), Value: payload}
		if err := out.WriteMessages(context.Background(), message); err != nil {
			log.Fatal(err)
		}
	}
}
