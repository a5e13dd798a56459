// SPDX-License-Identifier: Apache-2.0

// istio-iptables as a program of its own. Upstream ships it as a command of pilot-agent, which is twenty times what this needs.
package main

import (
	"os"

	"istio.io/istio/pkg/log"
	"istio.io/istio/tools/istio-iptables/pkg/cmd"
)

func main() {
	options := log.DefaultOptions()
	command := cmd.GetCommand(options)
	options.AttachCobraFlags(command)
	if err := command.Execute(); err != nil {
		os.Exit(255)
	}
}
