// Runs Helm's commands one after the other in one process, for tests that need hundreds of renderings: most of what a short run of Helm costs
// is its start. Standard input has one command per line, a JSON array of arguments; each is answered by one line of JSON on standard output,
// with what Helm itself would have printed and returned. The environment is that of the process. A command that ends the process, as a
// fatal error of Helm does, gets no answer.
//
// `npm run test:servers` builds it where .cache/servers has none: after a change here, delete .cache/servers/helm-commands first.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/pflag"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
)

type answer struct {
	Status int    `json:"status"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	descriptor, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.NewFile(uintptr(descriptor), "answers"))
	answers.SetEscapeHTML(false)
	stdout, err := capture(syscall.Stdout)
	if err != nil {
		return err
	}
	stderr, err := capture(syscall.Stderr)
	if err != nil {
		return err
	}
	commands := json.NewDecoder(os.Stdin)
	for {
		var args []string
		if err := commands.Decode(&args); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		one := answer{Status: run(args)}
		if one.Stdout, err = take(stdout); err != nil {
			return err
		}
		if one.Stderr, err = take(stderr); err != nil {
			return err
		}
		if err := answers.Encode(one); err != nil {
			return err
		}
	}
}

// run is what Helm's main function does, and then restores what the next command would find changed.
func run(args []string) int {
	command, err := helmcmd.NewRootCmd(os.Stdout, args, helmcmd.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		return 1
	}
	// The global flags are bound to one variable of Helm's, and a new root command takes its values for defaults.
	defer command.PersistentFlags().Visit(reset)
	command.SetArgs(args)
	err = command.Execute()
	if failed, ok := errors.AsType[helmcmd.CommandError](err); ok {
		return failed.ExitCode
	}
	if err != nil {
		return 1
	}
	return 0
}

func reset(flag *pflag.Flag) {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		_ = list.Replace(nil)
		return
	}
	_ = flag.Value.Set(flag.DefValue)
}

// capture sends all that is written to a descriptor, by whatever part of Helm, into a file without a name.
func capture(descriptor int) (*os.File, error) {
	file, err := os.CreateTemp("", "weir-helm-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	return file, syscall.Dup3(int(file.Fd()), descriptor, 0)
}

// take returns what the file has, and empties it. Its offset is shared with the descriptor that writes to it.
func take(file *os.File) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return "", err
	}
	if err := file.Truncate(0); err != nil {
		return "", err
	}
	_, err = file.Seek(0, io.SeekStart)
	return string(text), err
}
