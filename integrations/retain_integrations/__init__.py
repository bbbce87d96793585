"""Memory classes for other people's frameworks: LangGraph, CrewAI, AutoGen and AG2.

Each framework has a module of its own, which alone imports it:

    from retain_integrations.langgraph import RetainStore
    from retain_integrations.crewai import RetainCrewMemory, use_retain
    from retain_integrations.autogen import RetainMemory
    from retain_integrations.ag2 import RetainKnowledgeStore

What is stored through one of them is an ordinary memory: every other way in finds it.
"""
