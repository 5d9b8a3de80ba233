-- What wrk sends: a POST of a kilobyte, as a sidecar does.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"note":"' .. string.rep("x", 1013) .. '"}'
