-- Asks the limiter about a request: `http-request lua.weir shop`, with the name of a profile. The answer sets variables:
-- weir_status (200: allowed, 0: no answer), weir_refused, weir_retry_after, weir_limit, weir_remaining, weir_reset.

-- Request headers that the profile reads, in lower case. The script sends no others.
local forwarded = { "x-plan" }

-- Headers of the answer, and the variables that they set.
local variables = {
  ["x-weir-refused"] = "txn.weir_refused",
  ["retry-after"] = "txn.weir_retry_after",
  ["ratelimit-limit"] = "txn.weir_limit",
  ["ratelimit-remaining"] = "txn.weir_remaining",
  ["ratelimit-reset"] = "txn.weir_reset",
}

core.register_action("weir", { "http-req" }, function(txn, profile)
  local headers = {
    ["x-forwarded-for"] = { txn.sf:src() },
    ["x-forwarded-method"] = { txn.sf:method() },
    ["x-forwarded-uri"] = { txn.sf:pathq() },
    ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
  }
  for _, name in ipairs(forwarded) do
    local value = txn.f:req_fhdr(name)
    if value then headers[name] = { value } end
  end

  -- Goes to `listen weir` in haproxy.cfg, which has the addresses of the limiters and the timeouts.
  local answer = core.httpclient():get({
    url = "http://weir/v1/forward-auth/" .. profile,
    dst = "abns@weir",
    headers = headers,
  })
  txn:set_var("txn.weir_status", answer.status or 0)
  for name, variable in pairs(variables) do
    local values = answer.headers and answer.headers[name]
    if values then txn:set_var(variable, values[0]) end
  end
end, 1)
