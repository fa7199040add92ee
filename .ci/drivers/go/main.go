// pgx and lib/pq. Arguments: the ports of two hosts.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
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
	if failed+pqFailed > 0 {
		os.Exit(1)
	}
}
