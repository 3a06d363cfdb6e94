-- Asks the limiter about a request: `http-request lua.weir shop`, with the name of a profile. What it answers are variables:
-- weir_status (200: it may pass; 0: no answer), weir_refused, weir_retry_after, weir_limit, weir_remaining, weir_reset.

-- Headers of the request that the profile looks at, in lower case. No others are sent.
local forwarded = { "x-plan" }

-- Headers of the answer.
local told = {
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

  -- To `listen weir` of haproxy.cfg, which knows where limiters are, and how long to wait for them.
  local answer = core.httpclient():get({
    url = "http://weir/v1/forward-auth/" .. profile,
    dst = "abns@weir",
    headers = headers,
  })
  txn:set_var("txn.weir_status", answer.status or 0)
  for name, variable in pairs(told) do
    local values = answer.headers and answer.headers[name]
    if values then txn:set_var(variable, values[0]) end
  end
end, 1)
