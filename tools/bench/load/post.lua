-- Every request is a POST with a small body; headers are those of the command line.
wrk.method = "POST"
wrk.body = "12345"
