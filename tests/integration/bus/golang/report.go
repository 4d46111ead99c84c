// A report, its bytes and its signature, written from docs/reference/reports.md and
// report.proto alone: no code of Headgate's, no generated code, no protobuf library.
package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

type rows struct {
	Dimension string    `json:"dimension"`
	Groups    []uint64  `json:"groups"`
	Refused   []float64 `json:"refused"`
	Admitted  []float64 `json:"admitted"`
	Demand    []float64 `json:"demand"`
	Held      []float64 `json:"held"`
	Level     []float64 `json:"level,omitempty"`
	Subjects  []uint64  `json:"subjects,omitempty"`
}

type report struct {
	Format      uint64   `json:"format"`
	Cluster     string   `json:"cluster"`
	Agent       string   `json:"agent"`
	Incarnation uint64   `json:"incarnation"`
	Sequence    uint64   `json:"sequence"`
	SentAtUs    int64    `json:"sent_at_us"`
	Revision    uint64   `json:"revision"`
	Hello       bool     `json:"hello"`
	Leave       bool     `json:"leave"`
	Keyframe    bool     `json:"keyframe"`
	Rows        []rows   `json:"rows"`
	IntervalMs  uint64   `json:"interval_ms"`
	Part        uint64   `json:"part"`
	Parts       []uint64 `json:"parts,omitempty"`
}

var errMalformed = errors.New("malformed report")

const signed = "headgate report 1\x00"

// Writing.

type writer struct{ bytes []byte }

func (w *writer) varint(value uint64) { w.bytes = binary.AppendUvarint(w.bytes, value) }

func (w *writer) number(field, value uint64) {
	if value != 0 {
		w.varint(field << 3)
		w.varint(value)
	}
}

func (w *writer) flag(field uint64, value bool) {
	if value {
		w.number(field, 1)
	}
}

func (w *writer) block(field uint64, content []byte) {
	if len(content) > 0 {
		w.varint(field<<3 | 2)
		w.varint(uint64(len(content)))
		w.bytes = append(w.bytes, content...)
	}
}

func (w *writer) packed(field uint64, values []uint64) {
	var inner writer
	for _, value := range values {
		inner.varint(value)
	}
	w.block(field, inner.bytes)
}

func deltas(ids []uint64) []uint64 {
	result := make([]uint64, len(ids))
	before := uint64(0)
	for i, id := range ids {
		result[i], before = id-before, id
	}
	return result
}

func counters(values []float64, scale float64) []uint64 {
	result := make([]uint64, len(values))
	for i, value := range values {
		result[i] = uint64(math.Round(value * scale))
	}
	return result
}

func zigzag(values []float64, scale float64) []uint64 {
	result := make([]uint64, len(values))
	for i, value := range values {
		step := int64(math.Round(value * scale))
		result[i] = uint64(step<<1) ^ uint64(step>>63)
	}
	return result
}

func demandCode(demand float64) uint64 {
	if demand <= 0 {
		return 0
	}
	fraction, exponent := math.Frexp(demand)
	code := float64(exponent+19)*256 + math.Round(512*fraction) - 256
	return uint64(math.Min(math.Max(code, 1), 16383))
}

func (r *report) encode() []byte {
	var w writer
	w.number(1, r.Format)
	w.block(2, []byte(r.Cluster))
	w.block(3, []byte(r.Agent))
	w.number(4, r.Incarnation)
	w.number(5, r.Sequence)
	w.number(6, uint64(r.SentAtUs))
	w.number(7, r.Revision)
	w.flag(8, r.Hello)
	w.flag(9, r.Leave)
	w.flag(10, r.Keyframe)
	for _, one := range r.Rows {
		const steps = 1000 // of each column: finer than what is compared
		var c writer
		c.block(1, []byte(one.Dimension))
		c.number(2, steps)
		c.number(3, steps)
		c.number(4, steps)
		c.packed(5, deltas(one.Groups))
		c.packed(6, counters(one.Refused, steps))
		c.packed(7, counters(one.Admitted, steps))
		codes := make([]uint64, len(one.Demand))
		for i, demand := range one.Demand {
			codes[i] = demandCode(demand)
		}
		c.packed(8, codes)
		c.packed(9, zigzag(one.Held, steps))
		c.packed(10, zigzag(one.Level, steps))
		c.packed(11, one.Subjects)
		w.block(12, c.bytes)
	}
	w.number(15, r.IntervalMs)
	w.number(18, r.Part)
	w.packed(19, r.Parts)
	return w.bytes
}

// seal appends the signature, when there is a key, and the checksum.
func seal(body []byte, scheme string, key []byte) []byte {
	result := append([]byte{}, body...)
	if scheme != "" {
		var name [32]byte
		var signature []byte
		if scheme == "hmac" {
			name = sha256.Sum256(append([]byte("headgate key hmac"), key...))
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(signed))
			mac.Write(body)
			signature = mac.Sum(nil)
		} else {
			secret := ed25519.NewKeyFromSeed(key)
			public := secret.Public().(ed25519.PublicKey)
			name = sha256.Sum256(append([]byte("headgate key ed25519"), public...))
			digest := sha256.Sum256(body)
			signature = ed25519.Sign(secret, append([]byte(signed), digest[:]...))
		}
		result = append(result, 0x8a, 0x01, byte(8+len(signature)))
		result = append(append(result, name[:8]...), signature...)
	}
	sum := crc32.ChecksumIEEE(result)
	result = append(result, 0x85, 0x01)
	return append(result, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// Reading.

type reader struct {
	bytes []byte
	err   error
}

func (r *reader) varint() uint64 {
	value, size := binary.Uvarint(r.bytes)
	if size <= 0 {
		r.bytes, r.err = nil, errMalformed
		return 0
	}
	r.bytes = r.bytes[size:]
	return value
}

func (r *reader) take(count uint64) []byte {
	if count > uint64(len(r.bytes)) {
		r.bytes, r.err = nil, errMalformed
		return nil
	}
	taken := r.bytes[:count]
	r.bytes = r.bytes[count:]
	return taken
}

// fields calls see with each field: its number, its value if it is a varint, else its bytes.
func fields(message []byte, see func(field, value uint64, content []byte)) error {
	r := reader{bytes: message}
	for len(r.bytes) > 0 && r.err == nil {
		tag := r.varint()
		switch tag & 7 {
		case 0:
			see(tag>>3, r.varint(), nil)
		case 1:
			see(tag>>3, 0, r.take(8))
		case 2:
			see(tag>>3, 0, r.take(r.varint()))
		case 5:
			see(tag>>3, 0, r.take(4))
		default:
			return errMalformed
		}
	}
	return r.err
}

func unpacked(content []byte) []uint64 {
	r := reader{bytes: content}
	result := []uint64{}
	for len(r.bytes) > 0 {
		result = append(result, r.varint())
	}
	return result
}

func summed(steps []uint64) []uint64 {
	sum := uint64(0)
	for i, step := range steps {
		sum += step
		steps[i] = sum
	}
	return steps
}

func unsigned(steps []uint64, scale uint64) []float64 {
	result := make([]float64, len(steps))
	for i, step := range steps {
		result[i] = float64(step) / float64(scale)
	}
	return result
}

func unzigzag(steps []uint64, scale uint64) []float64 {
	result := make([]float64, len(steps))
	for i, step := range steps {
		result[i] = float64(int64(step>>1)^-int64(step&1)) / float64(scale)
	}
	return result
}

func orOne(scale uint64) uint64 {
	if scale == 0 {
		return 1
	}
	return scale
}

func decodeRows(content []byte, shared []uint64) (rows, error) {
	var result rows
	var scales [5]uint64
	columns := map[uint64][]uint64{}
	err := fields(content, func(field, value uint64, content []byte) {
		switch {
		case field == 1:
			result.Dimension = string(content)
		case field <= 4:
			scales[field] = value
		case field <= 11:
			columns[field] = unpacked(content)
		}
	})
	counter, held, level := orOne(scales[2]), orOne(scales[3]), orOne(scales[4])
	result.Groups = shared
	if own := columns[5]; len(own) > 0 {
		result.Groups = summed(own)
	}
	result.Refused = unsigned(columns[6], counter)
	result.Admitted = unsigned(columns[7], counter)
	for _, code := range columns[8] {
		demand := 0.0
		if code > 0 {
			demand = math.Ldexp(float64(256+code%256), int(code/256)-28)
		}
		result.Demand = append(result.Demand, demand)
	}
	result.Held = unzigzag(columns[9], held)
	result.Level = unzigzag(columns[10], level)
	result.Subjects = columns[11]
	if len(result.Admitted) != len(result.Groups) || len(result.Demand) != len(result.Groups) {
		return result, errMalformed
	}
	return result, err
}

func decode(payload []byte) (report, error) {
	var r report
	if end := len(payload) - 6; end >= 0 && payload[end] == 0x85 && payload[end+1] == 0x01 {
		if crc32.ChecksumIEEE(payload[:end]) != binary.LittleEndian.Uint32(payload[end+2:]) {
			return r, errMalformed
		}
	}
	var shared []uint64
	var columns [][]byte
	err := fields(payload, func(field, value uint64, content []byte) {
		switch field {
		case 1:
			r.Format = value
		case 2:
			r.Cluster = string(content)
		case 3:
			r.Agent = string(content)
		case 4:
			r.Incarnation = value
		case 5:
			r.Sequence = value
		case 6:
			r.SentAtUs = int64(value)
		case 7:
			r.Revision = value
		case 8:
			r.Hello = value != 0
		case 9:
			r.Leave = value != 0
		case 10:
			r.Keyframe = value != 0
		case 11:
			shared = summed(unpacked(content))
		case 12:
			columns = append(columns, content)
		case 15:
			r.IntervalMs = value
		case 18:
			r.Part = value
		case 19:
			r.Parts = unpacked(content)
		}
	})
	for _, content := range columns {
		decoded, wrong := decodeRows(content, shared)
		if wrong != nil {
			err = wrong
		}
		r.Rows = append(r.Rows, decoded)
	}
	if err == nil && (r.Format == 0 || r.Agent == "" || r.Cluster == "") {
		err = errMalformed
	}
	return r, err
}
