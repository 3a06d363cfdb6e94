package shop;

import jakarta.servlet.http.HttpServletRequest;
import java.util.*;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.web.bind.annotation.*;

@SpringBootApplication
@RestController
class Shop {
  public static void main(String[] args) {
    SpringApplication.run(Shop.class, args);
  }

  @Bean
  FilterRegistrationBean<Limit> visits() {
    return limit("visits", "/*", new Limit("shop", request -> List.of(List.of(address(request))), Limit.OnError.ALLOW));
  }

  @Bean
  FilterRegistrationBean<Limit> logins() {
    // While Weir is unavailable, no client can try passwords.
    return limit("logins", "/login", new Limit("login-throttling", request -> List.of(
        List.of(Collections.singletonMap("login_name", request.getParameter("user"))),
        List.of(Map.of("page", "login"), address(request))), Limit.OnError.DENY));
  }

  private static FilterRegistrationBean<Limit> limit(String name, String path, Limit limit) {
    var bean = new FilterRegistrationBean<>(limit);
    bean.setName(name);
    bean.addUrlPatterns(path);
    return bean;
  }

  private static Map<String, String> address(HttpServletRequest request) {
    return Map.of("remote_address", request.getRemoteAddr());
  }

  @GetMapping("/")
  String hello() {
    return "hello\n";
  }

  @PostMapping("/login")
  String login() {
    return "welcome\n";
  }
}
