# Asks a service one question from R: Rscript ask.R http://127.0.0.1:8750 TOKEN
# Needs the packages httr2 and jsonlite. Check the certificate with: oboro certificate verify answer.csv.certificate.json
library(httr2)

given <- commandArgs(trailingOnly = TRUE)
service <- request(given[1]) |>
  req_auth_bearer_token(given[2])
dataset <- URLencode("people 2026", reserved = TRUE)
question <- list(question = "mean", columns = list("income"), where = "age >= 20", eps = "0.1")

job <- service |>
  req_url_path_append("v1", "datasets", dataset, "questions") |>
  req_headers("Idempotency-Key" = paste0("r-", as.integer(Sys.time()))) |>
  req_body_json(question) |>
  req_perform() |>
  resp_body_json()
while (job$state == "pending") {
  Sys.sleep(job$due_in)
  job <- service |>
    req_url_path_append("v1", "questions", job$id) |>
    req_perform() |>
    resp_body_json()
}
stopifnot(job$state == "done")
answer <- service |>
  req_url_path_append("v1", "questions", job$id, "release") |>
  req_url_query(format = "csv") |>
  req_perform() |>
  resp_body_string()
writeLines(answer, "answer.csv")
print(read.csv("answer.csv"))
