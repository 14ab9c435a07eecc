// The merge of a part of an hour as stores do it that keep files of pprof: each is read and added up by google/pprof.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run blobs/main.go FOLDER [MINUTES]
//
// with the Debian package golang-github-google-pprof-dev. FOLDER gets one file for each of 40 hosts and each minute, 10 minutes by default, of the fleet
// that synthetic.rs describes: 20,000 stacks of 40 frames out of 30,000, how often each is seen falls with its rank as 1/rank^1.05.
package main

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
)

const (
	hosts            = 40
	samplesPerMinute = 64 * 19 * 60 * 2 / 5
	stacks           = 20000
	depth            = 40
	frames           = 30000
	binaries         = 10
	period           = 52631578
)

func main() {
	if len(os.Args) < 2 {
		fmt.Println("a folder is wanted")
		os.Exit(2)
	}
	folder, minutes := os.Args[1], 10
	if len(os.Args) > 2 {
		minutes, _ = strconv.Atoi(os.Args[2])
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.pb.gz"))
	if len(files) == 0 {
		write(folder, minutes)
		files, _ = filepath.Glob(filepath.Join(folder, "*.pb.gz"))
	}
	var bytes int64
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			bytes += info.Size()
		}
	}
	begun := time.Now()
	merged, count := merge(files)
	fmt.Printf("%d files of %d bytes: %d stacks of %d samples in %.2f s\n",
		len(files), bytes, len(merged.Sample), count, time.Since(begun).Seconds())
}

// As fast as that library goes: 64 at a time, and the sum with the next.
func merge(files []string) (*profile.Profile, int64) {
	var sum *profile.Profile
	for len(files) > 0 {
		n := min(len(files), 64)
		var some []*profile.Profile
		if sum != nil {
			some = append(some, sum)
		}
		for _, file := range files[:n] {
			opened, err := os.Open(file)
			check(err)
			read, err := profile.Parse(opened)
			check(err)
			opened.Close()
			some = append(some, read)
		}
		files = files[n:]
		merged, err := profile.Merge(some)
		check(err)
		sum = merged
	}
	var count int64
	for _, sample := range sum.Sample {
		count += sample.Value[0]
	}
	return sum, count
}

func write(folder string, minutes int) {
	check(os.MkdirAll(folder, 0o755))
	random := rand.New(rand.NewSource(1))
	shares := make([]float64, stacks)
	total := 0.0
	for rank := range shares {
		shares[rank] = math.Pow(float64(rank+1), -1.05)
		total += shares[rank]
	}
	for minute := 0; minute < minutes; minute++ {
		for host := 0; host < hosts; host++ {
			made := blob(random, shares, total)
			made.TimeNanos = int64(minute) * 60e9
			file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%04d-%02d.pb.gz", minute, host)))
			check(err)
			check(made.Write(file))
			check(file.Close())
		}
	}
}

func blob(random *rand.Rand, shares []float64, total float64) *profile.Profile {
	made := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     period,
	}
	for binary := 0; binary < binaries; binary++ {
		made.Mapping = append(made.Mapping, &profile.Mapping{
			ID: uint64(binary + 1), Start: uint64(binary) << 32, Limit: uint64(binary+1) << 32,
			File: fmt.Sprintf("/usr/lib/lib%d.so", binary), BuildID: fmt.Sprintf("%040x", 0xabcd0000+binary),
		})
	}
	locations := make([]*profile.Location, frames)
	for stack := 0; stack < stacks; stack++ {
		count := poisson(random, shares[stack]/total*samplesPerMinute)
		if count == 0 {
			continue
		}
		sample := &profile.Sample{Value: []int64{count, count * period}}
		for at := 0; at < depth; at++ {
			frame := (stack*7 + at*131) % frames
			if locations[frame] == nil {
				mapping := made.Mapping[frame%binaries]
				locations[frame] = &profile.Location{
					ID: uint64(len(made.Location) + 1), Mapping: mapping, Address: mapping.Start + uint64(frame)*16,
				}
				made.Location = append(made.Location, locations[frame])
			}
			sample.Location = append(sample.Location, locations[frame])
		}
		made.Sample = append(made.Sample, sample)
	}
	return made
}

func poisson(random *rand.Rand, mean float64) int64 {
	if mean >= 50 {
		return int64(math.Max(0, math.Round(mean+random.NormFloat64()*math.Sqrt(mean))))
	}
	limit, product, count := math.Exp(-mean), random.Float64(), int64(0)
	for product > limit {
		product *= random.Float64()
		count++
	}
	return count
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
