// The documentation of the API: Swagger UI on our own OpenAPI document.
"use strict";
window.addEventListener("DOMContentLoaded", () => {
  window.SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#docs",
    deepLinking: true,
    filter: true,
    docExpansion: "none",
    validatorUrl: null, // nobody else is told of this server
  });
});
