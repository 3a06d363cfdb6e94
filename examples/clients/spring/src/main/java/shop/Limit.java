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
import org.springframework.stereotype.Component;
import org.springframework.web.filter.OncePerRequestFilter;

/** Asks Weir before a request goes on. */
@Component
class Limit extends OncePerRequestFilter {
  private final URI weir = URI.create(System.getenv().getOrDefault("WEIR_URL", "http://localhost:8080") + "/v1/check");
  private final String token = System.getenv().getOrDefault("WEIR_TOKEN", "");
  // One client for all requests: it keeps connections alive.
  private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofMillis(250)).build();

  @Override
  protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain) throws IOException, ServletException {
    var descriptors = List.of(List.of(Map.of("remote_address", request.getRemoteAddr()))); // What is counted.
    var body = new ObjectMapper().writeValueAsString(Map.of("domain", "shop", "descriptors", descriptors));
    var ask = HttpRequest.newBuilder(weir).timeout(Duration.ofMillis(250)).header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body));
    if (!token.isEmpty()) ask.header("Authorization", "Bearer " + token);
    try {
      var answer = client.send(ask.build(), BodyHandlers.ofString());
      boolean refused = answer.statusCode() == 429;
      if (!refused && answer.statusCode() != 200) logger.error("Weir answers " + answer.statusCode() + ": " + answer.body());
      answer.headers().map().forEach((name, values) -> {
        if (name.startsWith("ratelimit") || name.equals("retry-after") && refused) response.setHeader(name, values.get(0));
      });
      if (refused) { response.sendError(429, "too many requests"); return; }
    } catch (IOException | InterruptedException error) {
      logger.error("Weir does not answer: " + error); // The request passes.
    }
    chain.doFilter(request, response);
  }
}
