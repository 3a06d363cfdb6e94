package shop;

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.*;
import jakarta.servlet.http.*;
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.*;
import java.util.function.Function;
import org.springframework.web.filter.OncePerRequestFilter;

/** Asks Weir before the application handles a request. */
class Limit extends OncePerRequestFilter {
  /** What happens to a request if Weir cannot decide. */
  enum OnError { ALLOW, DENY }

  private static final URI weir = URI.create(System.getenv().getOrDefault("WEIR_URL", "http://localhost:8080") + "/v1/check");
  private static final String token = System.getenv().getOrDefault("WEIR_TOKEN", "");
  // One client for all requests: it keeps connections alive.
  private static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofMillis(250)).build();
  private static final ObjectMapper json = new ObjectMapper();
  private final String domain;
  private final Function<HttpServletRequest, List<List<Map<String, ?>>>> describe;
  private final OnError onError;

  /** `describe` returns the descriptors to count. */
  Limit(String domain, Function<HttpServletRequest, List<List<Map<String, ?>>>> describe, OnError onError) {
    this.domain = domain;
    this.describe = describe;
    this.onError = onError;
  }

  @Override
  protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain) throws IOException, ServletException {
    var descriptors = describe.apply(request).stream().map(entries -> entries.stream().map(Limit::texts).toList()).toList();
    var ask = HttpRequest.newBuilder(weir).timeout(Duration.ofMillis(250)).header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(json.writeValueAsString(Map.of("domain", domain, "descriptors", descriptors))));
    if (!token.isEmpty()) ask.header("Authorization", "Bearer " + token);
    int status = 0;
    try {
      var answer = client.send(ask.build(), BodyHandlers.ofString());
      status = answer.statusCode();
      boolean isOverLimit = status == 429;
      if (!isOverLimit && status != 200) logger.error("Weir answers " + status + ": " + answer.body());
      answer.headers().map().forEach((name, values) -> {
        if (name.startsWith("ratelimit") || name.equals("retry-after") && isOverLimit) response.setHeader(name, values.get(0));
      });
    } catch (IOException | InterruptedException error) {
      logger.error("Weir does not answer: " + error);
    }
    // The content of a request can cause 400 and 413, so the request is denied regardless of onError.
    if (status == 429 || status == 400 || status == 413) response.sendError(429, "too many requests");
    else if (status != 200 && onError == OnError.DENY) response.sendError(503, "try again later");
    else chain.doFilter(request, response);
  }

  /** Converts values to strings, the only values that Weir accepts. A client cannot pass by sending another type. */
  private static Map<String, String> texts(Map<String, ?> entry) {
    var texts = new LinkedHashMap<String, String>();
    entry.forEach((key, value) -> texts.put(key, value instanceof String text ? text : json.valueToTree(value).toString()));
    return texts;
  }
}
