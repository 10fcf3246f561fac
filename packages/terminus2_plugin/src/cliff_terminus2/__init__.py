"""CliffCompaction for Terminus-2 of terminal-bench and Harbor: the host's agent with another summarizer.

    tb run --agent-import-path cliff_terminus2.terminal_bench:CliffTerminus2 -m MODEL -k cliff_threshold_tokens=16000 …
    harbor run -a cliff_terminus2.harbor:CliffTerminus2 -m MODEL --ak cliff_threshold_tokens=16000 …

| module | what |
|---|---|
| `options` | the options of both hosts |
| `dialect` | Terminus-2's messages as the core's contents |
| `session` | one conversation: what is sent, what is kept, what is recorded |
| `terminal_bench`, `harbor` | the subclass of the host's agent, each the only module that knows its host |
"""
