// pgx, lib/pq and goose. Arguments: the ports of two hosts.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func version(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "?"
}

func main() {
	passed, failed := pgxChecks()
	fmt.Printf("pgx %s: %d passed, %d failed\n", version("github.com/jackc/pgx/v5"), passed, failed)
	pqPassed, pqFailed := pqChecks()
	fmt.Printf("lib/pq %s: %d passed, %d failed\n", version("github.com/lib/pq"), pqPassed, pqFailed)
	goosePassed, gooseFailed := gooseChecks()
	fmt.Printf("goose %s: %d passed, %d failed\n", version("github.com/pressly/goose/v3"), goosePassed, gooseFailed)
	if failed+pqFailed+gooseFailed > 0 {
		os.Exit(1)
	}
}
