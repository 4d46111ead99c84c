module headgate.example/reports

go 1.15

require github.com/segmentio/kafka-go v0.4.48
