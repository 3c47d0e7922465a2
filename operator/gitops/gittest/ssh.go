// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

func (s *Server) acceptSSH() {
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), s.guest.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(s.host)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serveSSH(conn, config)
	}
}

func (s *Server) serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.serveSession(channel, requests)
	}
}

// serveSession runs git-upload-pack or git-receive-pack.
func (s *Server) serveSession(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(request.Type == "env", nil)
			continue
		}
		var command struct{ Line string }
		if err := ssh.Unmarshal(request.Payload, &command); err != nil {
			return
		}
		service, path, _ := strings.Cut(command.Line, " ")
		service = strings.TrimPrefix(service, "git-")
		if service != "upload-pack" && service != "receive-pack" {
			_ = request.Reply(false, nil)
			return
		}
		_ = request.Reply(true, nil)
		path = filepath.Join(s.Dir, filepath.Clean("/"+strings.Trim(path, "'")))
		git := exec.Command(s.git, service, path) //nolint:gosec,noctx // it ends with the channel
		git.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+s.Dir)
		git.Stdout, git.Stderr = channel, channel.Stderr()
		in, err := git.StdinPipe()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = in.Close() }()
			_, _ = io.Copy(in, channel)
		}()
		status := struct{ Status uint32 }{}
		if git.Run() != nil {
			status.Status = 1
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&status))
		return
	}
}
