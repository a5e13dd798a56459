// SPDX-License-Identifier: Apache-2.0

// Records what Go says of pseudo-random text, for wordings.json. Run it again only to change the recording:
//
//	go run record.go 600 1 > wordings.json
//
// Arguments: how many texts, seed.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

type entry struct {
	Text   string `json:"text"`
	Quoted string `json:"quoted"`
	Prefix string `json:"prefix"` // the prefix as Go prints it, or the error
	Port   string `json:"port"`   // likewise
	Bool   string `json:"bool"`   // likewise
}

var seeds = []string{
	"10.0.0.0/8", "192.168.1.7/16", "0.0.0.0/0", "255.255.255.255/32", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.0/+8",
	"10.0.0/8", "10.0.0.0.0/8", "10..0.0/8", ".1.2.3/8", "1.2.3./8", "010.0.0.0/8", "256.0.0.0/8", "10.0.0.0/", "10.0.0.0", "/8",
	"a/8", "*", "", "::/0", "::1/128", "fd00:1::5/64", "fe80::1%eth0/64", "::%e/0", "fe80::1%/64", "%/1", "1%2/3", "2001:db8::/129",
	"::ffff:1.2.3.4/96", "64:ff9b::1.2.3.4/96", "1:2:3:4:5:6:7:8/128", "1:2:3:4:5:6:7::/64", "1:2:3:4:5:6:7:8:9/1", "1::2::3/1",
	"1:2:3:4:5:6:1.2.3.4/1", "1:2:1.2.3.4/1", "1:2:3:4:5:6:7:1.2.3.4/1", "::1:2:3:4:5:6:7:8/1", "1::2:3:4:5:6:7:8/1", "12345::/1",
	"1:/1", ":1/1", ":/1", ":::/1", "1::/1/2", "g::/1", "1::g/1", "1::1.2.3/1", "1::1.2.3.400/1", "10.0.0.0/99999999999999999999",
	"10.0.0.0/9223372036854775807", "10.0.0.0/9223372036854775808", "10.0.0.0/256", "10.0.0.0/1_0", "80", "0", "080", "65535", "65536",
	"-1", "+1", "0x50", "8 0", "99999999999999999999x", "7x", "1e3", "80-90", "true", "True", "TRUE", "t", "1", "yes", "tRUE", "False",
	"\u00e9", "\u200b", "\u00ad", "\ufeff", "\u0301", "\U0001f600", "\U000e0001", "\x00", "\x7f", "\"", "\\", "\a\b\f\n\r\t\v", "\ufffd",
}

const letters = "0123456789abcdefABCDEF.:/%*+-_ ,gx\t\"\\\u00e9\u2028\u00a0\U0001f600"

func mutate(r *rand.Rand, text string) string {
	runes, alphabet := []rune(text), []rune(letters)
	for n := r.Intn(3); n >= 0; n-- {
		at := r.Intn(len(runes) + 1)
		switch r.Intn(4) {
		case 0:
			runes = append(runes[:at:at], append([]rune{alphabet[r.Intn(len(alphabet))]}, runes[at:]...)...)
		case 1:
			if at < len(runes) {
				runes = append(runes[:at:at], runes[at+1:]...)
			}
		case 2:
			if at < len(runes) {
				runes[at] = alphabet[r.Intn(len(alphabet))]
			}
		case 3:
			if at < len(runes) {
				end := at + r.Intn(len(runes)-at)
				runes = append(runes[:end:end], runes[at:]...)
			}
		}
	}
	return string(runes)
}

func says[T any](value T, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(value)
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	seed, _ := strconv.ParseInt(os.Args[2], 10, 64)
	r := rand.New(rand.NewSource(seed))
	var lines []string
	for i := 0; i < count; i++ {
		text := seeds[i%len(seeds)]
		for n := i / len(seeds); n > 0 && r.Intn(4) > 0; n-- {
			text = mutate(r, text)
		}
		line, _ := json.Marshal(entry{text, strconv.Quote(text), says(netip.ParsePrefix(text)), says(strconv.ParseUint(text, 10, 16)), says(strconv.ParseBool(text))})
		lines = append(lines, string(line))
	}
	fmt.Println("[\n" + strings.Join(lines, ",\n") + "\n]")
}
